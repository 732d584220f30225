"""TPC-C 5.11: wholesale suppliers, their warehouses, and the five transactions of their terminals.

The folder has the data and the database's side: how the tables are filled, what must hold in them, and
the five transactions in the dialect of each engine. The driver (:mod:`benchlab.drivers.tpcc`) has the
terminals and the application server, which call the transactions.
"""
