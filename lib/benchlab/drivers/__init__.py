"""Drivers: the programs that make the load."""
