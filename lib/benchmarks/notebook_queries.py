"""Run the code of an analysis notebook on a store; print what its queries cost, as JSON.

``python notebook_queries.py NOTEBOOK STORE``: ``queries_s`` is the time in the store's queries,
``peak_bytes`` the most memory that the whole process had.
"""

import json
import sys
import time
from pathlib import Path

from benchlab.store import Store


def main(notebook: Path, source: str) -> None:
    """Run every code cell in order, without rendering its output."""
    spent, query = [], Store.sql

    def timed(*arguments: object, **options: object) -> object:
        begin = time.monotonic()
        try:
            return query(*arguments, **options)
        finally:
            spent.append(time.monotonic() - begin)

    Store.sql = timed
    names = {"display": lambda *_: None}
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
            if "parameters" in cell["metadata"].get("tags", ()):
                names["source"] = source
    # not from getrusage: its maximum for a process starts at the parent's maximum
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak = int(status["VmHWM"].split()[0]) * 1024
    print(json.dumps({"queries_s": sum(spent), "queries": len(spent), "peak_bytes": peak}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
