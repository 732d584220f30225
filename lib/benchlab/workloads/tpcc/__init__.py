"""TPC-C 5.11: wholesale suppliers, their warehouses, and the five transactions of their terminals.

The folder has the data and the database's side: how the tables are filled, what must hold in them, and
the five transactions in the dialect of each engine. Terminals and the application server, which call
these, are the driver's (:mod:`benchlab.drivers.tpcc`).
"""
