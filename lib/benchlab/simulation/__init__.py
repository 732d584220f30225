"""Simulations, where the truth is known: how reliable intervals, verdicts and the gate are."""
