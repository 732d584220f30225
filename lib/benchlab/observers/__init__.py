"""Observers: what watches a run, and the parsers of what they print.

One module per program, each written from recorded output of the real one (``lib/tests/data``). Parsers
are pure, so that a corrected one can be run again over all history. ``poll`` of ``background``,
``replication``, ``sessions`` and ``table_states`` asks the server while the load runs. A module whose
program runs beside the load also holds the command line that produces such text:

``COMMAND``
    the program and its arguments; its standard output is the capture, unless its module says
    otherwise.
``BEGUN``
    text that its output has as soon as it watches; left out by a program that is quick to begin.
``THEN``
    a second program and its arguments, run when the first has ended; its output is the capture
    instead.
``ENVIRONMENT``
    variables that both need, so that their timestamps and numbers are unambiguous.
``STOP_SIGNAL``
    signal that ends the program with a complete capture.

An observer whose capture becomes rows of the table ``os_sample`` has ``samples(text)``, which returns
them:

===========  ========================================================================
``t``        end of the interval in Unix seconds
``observer`` the program
``subject``  ``all``, group, device
``metric``   name with its unit
``value``    as measured; what the program could not measure has no row
===========  ========================================================================

A capture may end in the middle, because the program or its host was killed: only its complete samples
have rows. A text that is wrong anywhere else is a :class:`~benchlab.errors.ParseError`. A column that a
newer version of a program adds is left out of the rows (the capture keeps it); the agent's own samples
have no other keys than those of their version.
"""

from benchlab.observers import iostat, mpstat, perf, pidstat, sample, vmstat

#: Observers of a node with an engine: capture → module of the program that produces it.
OBSERVERS = {
    "iostat.json": iostat,
    "mpstat.json": mpstat,
    "pidstat.txt": pidstat,
    "vmstat.txt": vmstat,
    "sample.jsonl": sample,
    "perf.script": perf,
}

#: Observers of a node without an engine.
COUNTERS = {"sample.jsonl": sample}

#: Folded stacks of perf, kept instead of its text, which is a hundred times as large.
FOLDED = "perf.folded"
