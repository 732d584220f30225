"""The product catalogue of telephone companies: a tree in two tables, read by one recursive query.

Every operator sells offerings. An offering is made of product specs, these of customer-facing service
specs (CFSS), these of resource-facing service specs (RFSS), and these of resource specs. A node has
children on the level below, and may share them with other nodes. The nodes of all five levels are rows
of one table; the edges are rows of another one.
"""
