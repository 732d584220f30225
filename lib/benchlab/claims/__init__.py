"""Claims: what an article states, as checkable tests, and what the runs show."""
