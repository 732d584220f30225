"""Claims: what an article states, made checkable, and what the runs show."""
