"""pgbench: PostgreSQL's own load generator, with its built-in scripts and those of a workload."""
