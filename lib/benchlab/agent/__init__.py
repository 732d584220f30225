"""The agent: what benchlab does as root on a target host.

It enforces the envelope (loop device, cgroups, limits), runs one engine inside it, and samples the
kernel's counters. It needs the standard library only, and Python >= 3.11. The folder is copied to the
target, and the system's interpreter runs it: ``python3 -I .../benchlab_agent <subcommand>``. So nothing
here imports from the rest of the package.
"""
