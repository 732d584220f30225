"""sysbench: its own OLTP scripts, and Lua scripts of a workload."""
