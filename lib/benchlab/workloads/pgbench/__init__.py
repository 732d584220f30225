"""The tables of pgbench's built-in scripts: branches, tellers, accounts and a history."""
