"""Claims: what an article says, made checkable, and what the runs say of it."""
