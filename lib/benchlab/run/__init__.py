"""Running: a whole plan, the batch of one notebook, one trial."""
