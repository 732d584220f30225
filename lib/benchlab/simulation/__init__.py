"""What is simulated, since the truth is known there: how far intervals, verdicts and the gate hold."""
