"""The tables of sysbench's OLTP scripts."""
