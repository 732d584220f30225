"""Drivers: how each family of workloads is loaded and run."""
