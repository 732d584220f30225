"""The agent: what benchlab does as root on a target host.

It holds the envelope (loop device, cgroups, limits), runs one engine inside it, and samples the
kernel's counters. Standard library only, Python >= 3.11: the folder is copied to the target and run
there by the system's interpreter, ``python3 -I .../benchlab_agent <subcommand>``, so nothing here
imports from the rest of the package.
"""
