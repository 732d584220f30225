"""Run folders: what programs printed during a run, byte for byte, and the record that closes it."""
