"""sysbench: OLTP scripts of its own, and Lua scripts of a workload."""
