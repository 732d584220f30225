"""Run: a plan, a notebook's curve, one trial."""
