"""Start the application server: ``python -m benchlab.drivers.tpcc.was --help``."""

import argparse
import logging
import sys
from pathlib import Path

import msgspec

from benchlab.drivers.tpcc.arguments import whole
from benchlab.drivers.tpcc.options import OPTIONS
from benchlab.drivers.tpcc.was.null import NULL
from benchlab.drivers.tpcc.was.pool import ISOLATIONS, Address
from benchlab.drivers.tpcc.was.serve import Options, serve
from benchlab.errors import BenchlabError
from benchlab.workloads.tpcc.transactions import ENGINES, FORMS
from benchlab.workloads.tpcc.transactions import Options as StatementOptions

_DEFAULTS = StatementOptions()

#: Options of the form ``statements``.
_STATEMENTS = ("batched", "prepared", "joined")

_DESCRIPTION = """
Application server of TPC-C. It takes forms from terminals as JSON (POST /api/<type>) and from people as
HTML (/), runs transactions on a pool of connections, executes deliveries later, and counts everything
(/metrics).

It reads the database's address from standard input, so that no process list shows it: one line,
{"host": ..., "port": ..., "user": ..., "password": ..., "database": ...}.

It prints "ready <Unix time> <URL>" when the pool is full and it serves. On SIGTERM it gives the answers
that are under way, executes queued deliveries for a while, and writes the others to the result file as
not executed.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchlab.drivers.tpcc.was",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=int, default=8080, help="0: any that is free (default: %(default)s)")
    add(
        "--database",
        choices=("engine", NULL),
        default="engine",
        help="null: none; answers are made up, to measure everything else alone",
    )
    add("--engine", choices=ENGINES, help="engine of the database")
    add(
        "--form",
        choices=FORMS,
        help="form of the transactions: stored procedures or client SQL",
    )
    for option in _STATEMENTS:
        add(
            f"--{option}",
            action=argparse.BooleanOptionalAction,
            default=getattr(_DEFAULTS, option),
            help=f"{OPTIONS[option]} (default: %(default)s)",
        )
    add(
        "--isolation",
        choices=ISOLATIONS,
        default="serializable",
        help="isolation level of the transactions (default: %(default)s)",
    )
    add(
        "--pool",
        type=whole(1),
        default=16,
        help="transactions that run at a time, and connections (default: %(default)s)",
    )
    add(
        "--queue",
        type=whole(0),
        default=1000,
        help="transactions that wait; further ones get a 503 (default: %(default)s)",
    )
    add(
        "--repeats",
        type=whole(0),
        default=50,  # 2 s on average, well within the limit on the response time (clause 5.2.5.7)
        help="retries of one transaction, at most (default: %(default)s)",
    )
    add(
        "--delivery-workers",
        type=whole(1),
        default=4,
        help="deliveries executed at a time (default: %(default)s)",
    )
    add(
        "--delivery-results",
        type=Path,
        required=True,
        metavar="PATH",
        help="file that a JSON line of each delivery is added to",
    )
    add(
        "--drain",
        type=float,
        default=10,
        metavar="S",
        help="seconds for queued deliveries at the end (default: %(default)s)",
    )
    add(
        "--until-left",
        action="store_true",
        help="end when all clients have disconnected, after the first request",
    )
    return parser


def main() -> None:
    """Serve as the command line says.

    Exit codes: 0 after SIGTERM or SIGINT, 1 with one line if it cannot serve, 2 for wrong arguments.
    """
    parser = _parser()
    given = parser.parse_args()
    null = given.database == NULL
    if not null and not (given.engine and given.form):
        parser.error("--engine and --form are needed, or --database null")
    options = Options(
        host=given.host,
        port=given.port,
        engine=NULL if null else given.engine,
        form="" if null else given.form,
        statements=StatementOptions(**{option: getattr(given, option) for option in _STATEMENTS}),
        isolation=given.isolation,
        pool=given.pool,
        queue=given.queue,
        repeats=given.repeats,
        delivery_workers=given.delivery_workers,
        delivery_results=given.delivery_results,
        drain_s=given.drain,
        until_left=given.until_left,
    )
    logging.basicConfig(format="%(asctime)s %(message)s")
    try:
        serve(options, None if null else _address(sys.stdin.buffer.readline()))
    except BenchlabError as error:
        sys.exit(f"{parser.prog}: {error}")


def _address(line: bytes) -> Address:
    try:
        return msgspec.json.decode(line, type=Address)
    except msgspec.DecodeError as error:
        raise BenchlabError(f"standard input: where the database is: {error}") from error


if __name__ == "__main__":
    main()
