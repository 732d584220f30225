"""Run: a plan, a notebook's batch, one trial."""
