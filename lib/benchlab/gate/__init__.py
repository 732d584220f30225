"""The gate: checks that a run must pass before a verdict or a sentence of the paper uses it."""
