"""The agent's command line.

Most subcommands print one JSON object. ``sample`` and ``intervene`` print lines of JSON, ``observe`` a
tar archive, ``engine log`` the log, ``engine trace-log`` what bpftrace prints, and ``client`` what its
program prints. An error is one line on stderr and exit code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

if not __package__:
    # The folder was run as a program, "python3 -I .../benchlab_agent": import it as a package, under
    # the folder's name.
    folder = Path(__file__).resolve().parent
    sys.path[:] = [path for path in sys.path if path != str(folder)] + [str(folder.parent)]
    sys.exit(importlib.import_module(f"{folder.name}.__main__").main())

from .config import DISK_LIMITS, ETC, AgentError, load_envelope
from .engine import Engine
from .envelope import Envelope
from .log_latency import probe, trace
from .sample import record
from .speed import measured
from .system import DIE_WITH_PARENT, host_locked


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    main = argparse.ArgumentParser(
        prog="benchlab-agent",
        description="Hold the envelope, run an engine inside it, sample the kernel. Needs root.",
    )
    main.add_argument(
        "--etc",
        type=Path,
        default=ETC,
        metavar="DIR",
        help="configuration folder (default: %(default)s)",
    )
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")

    envelope = commands.add_parser(
        "envelope", help="the host's limits: cgroups, loop device, file system"
    )
    verbs = envelope.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("up", help="bring everything but the disk limits into force (idempotent)")
    down = verbs.add_parser("down", help="take everything down, from any state; the image is kept")
    down.add_argument(
        "--wipe", action="store_true", help="delete the image and the snapshots as well"
    )
    limit = verbs.add_parser("limit", help="the disk limits")
    limit.add_argument("state", choices=("on", "off"))
    for name in DISK_LIMITS:
        limit.add_argument(
            f"--{name.replace('_', '-')}",
            type=int,
            metavar="N",
            help="instead of the configured one; 0: no limit",
        )
    verbs.add_parser("status", help="what is in force, read back from the kernel")

    engine = commands.add_parser("engine", help="one engine inside the envelope")
    engine.add_argument("engine", metavar="NAME", help="an engine of DIR/engines")
    verbs = engine.add_subparsers(dest="verb", required=True, metavar="VERB")
    start = verbs.add_parser("start", help="start it and wait until it answers")
    verbs.add_parser("stop", help="stop it; returns when it is really down")
    cold = verbs.add_parser("cold", help="stop, restore if requested, drop the caches, start")
    for command in (start, cold):
        command.add_argument(
            "--variant", required=True, metavar="V", help="a variant of the engine's configuration"
        )
    cold.add_argument(
        "--restore", metavar="KEY", help="put this snapshot in place before the start"
    )
    cold.add_argument(
        "--more-memory",
        type=int,
        default=0,
        metavar="BYTES",
        help="extra memory of the envelope while it runs (default: %(default)s)",
    )
    for name, text in (
        ("snapshot", "copy the data directory"),
        ("restore", "put a snapshot in its place"),
    ):
        verbs.add_parser(name, help=f"{text} (engine stopped)").add_argument("key", metavar="KEY")
    verbs.add_parser("snapshots", help="list them")
    verbs.add_parser("status", help="is it running, with which variant and processes")
    verbs.add_parser("metrics", help="print the counters of the services that publish any")
    verbs.add_parser("log", help="print what it has logged since its last start, as it is")
    for name, text in (
        ("probe-log", "measure how long a durable write to its log takes (engine idle)"),
        ("trace-log", "trace writes to its log by system call, as bpftrace's JSON, until SIGINT"),
    ):
        verbs.add_parser(name, help=text).add_argument(
            "--folder", required=True, metavar="F", help="the log's folder in the data directory"
        )

    sample = commands.add_parser(
        "sample", help="one JSON line of counters a tick, until SIGTERM or SIGINT"
    )
    sample.add_argument(
        "--interval", type=float, default=1.0, metavar="S", help="seconds (default: %(default)g)"
    )

    commands.add_parser("speed", help="how fast a core of the host copies memory right now")

    commands.add_parser(
        "observe",
        help="run the observers named on standard input until it ends; their captures come out as tar",
    )

    commands.add_parser(
        "intervene",
        help="lower limits block by block, by the schedule on standard input; put them back",
    )

    client = commands.add_parser(
        "client",
        help="execute a program inside the envelope's client group; it ends with its caller",
    )
    client.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- PROGRAM [ARGUMENT ...]")
    return main


def call(options: argparse.Namespace) -> dict[str, Any]:
    """Run the requested verb and return its result; `client` executes its program and never returns."""
    if options.command == "speed":
        return measured()
    envelope = Envelope(options.etc)
    if options.command == "envelope":
        return {
            "up": envelope.up,
            "down": lambda: envelope.down(wipe=options.wipe),
            "limit": lambda: envelope.limit(options.state == "on", _overrides(options)),
            "status": envelope.status,
        }[options.verb]()
    if options.command == "engine":
        engine = Engine(options.engine, envelope)
        return {
            "start": lambda: engine.start(options.variant),
            "stop": engine.stop,
            "cold": lambda: engine.cold(options.variant, options.restore, options.more_memory),
            "snapshot": lambda: engine.snapshot(options.key),
            "restore": lambda: engine.restore(options.key),
            "snapshots": engine.snapshots,
            "status": engine.status,
            "metrics": engine.metrics,
            "probe-log": lambda: _probe_log(engine, options.folder),
        }[options.verb]()
    argv = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    if not argv:
        raise AgentError("client: no program given; client -- PROGRAM [ARGUMENT ...]")
    if not shutil.which(argv[0]):
        raise AgentError(f"client: cannot execute {argv[0]}: no such program")
    envelope.enter("client")
    # Python ignores SIGPIPE, and the program would inherit that; it must end with its output's reader
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execvp(DIE_WITH_PARENT[0], [*DIE_WITH_PARENT, *argv])


def _probe_log(engine: Engine, folder: str) -> dict[str, float]:
    # cgroup version 2 limits the disk for the engine's group only
    engine.envelope.enter("engine")
    return probe(engine.config, folder)


def _lock_for(options: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """Return a lock that serialises calls which change the host; none for calls that only read."""
    asks_only = options.command in ("client", "speed") or options.verb in (
        "status",
        "snapshots",
        "metrics",
        "probe-log",
    )
    return contextlib.nullcontext() if asks_only else host_locked(options.etc)


def _overrides(options: argparse.Namespace) -> dict[str, int]:
    requested = {name: getattr(options, name) for name in DISK_LIMITS}
    return {name: limit for name, limit in requested.items() if limit is not None}


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand and return the exit code."""
    options = parser().parse_args(argv)
    try:
        if os.geteuid() != 0:
            raise AgentError("must run as root: cgroups, mounts and other users' processes need it")
        if options.command == "observe":
            # here, since tarfile and tempfile would double the time of other calls
            from .observe import observe

            home = load_envelope(options.etc).home
            observe(home, sys.stdin.buffer, sys.stdout.buffer)
        elif options.command == "intervene":
            from .intervene import intervene  # here, like observe

            intervene(Envelope(options.etc), sys.stdin.fileno(), sys.stdout)
        elif options.command == "engine" and options.verb == "log":
            engine = Engine(options.engine, Envelope(options.etc))
            sys.stdout.buffer.write(engine.log())
        elif options.command == "engine" and options.verb == "trace-log":
            trace(Engine(options.engine, Envelope(options.etc)).config, options.folder)
        elif options.command == "sample":
            record(Envelope(options.etc), options.interval, sys.stdout)
        else:
            with _lock_for(options):
                print(json.dumps(call(options)))
    except (AgentError, OSError) as error:
        print(f"benchlab-agent: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("benchlab-agent: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
