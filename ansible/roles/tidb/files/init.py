"""Make a data directory of TiDB, whole or not at all, with a password and an empty database.

init.py USER DATA_DIR ETC_DIR PORT DATABASE CLIENT VARIANT
"""

import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path

READY_TIMEOUT_S = 180
STOP_TIMEOUT_S = 120


def main(user, data_dir, etc, port, database, client, variant):
    """Make it."""
    account = pwd.getpwnam(user)
    data, log = Path(data_dir), Path("/run/benchlab/tidb-init.log")
    password = Path("/etc/benchlab/secrets/tidb").read_text().strip()
    # in place and not beside it: PD keeps paths of its own
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(mode=0o700)
    os.chown(data, account.pw_uid, account.pw_gid)
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["/bin/bash", etc + "/start.sh", variant, data_dir],
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "HOME": account.pw_dir},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    argv = [client, "--no-defaults", "--protocol=tcp", "--host=127.0.0.1"]
    argv += ["--port=" + port, "--user=root", "--batch"]
    try:
        wait(process, [*argv, "--execute=SELECT 1"], log)
        statements = (
            f"CREATE DATABASE IF NOT EXISTS `{database}`;"
            f" ALTER USER root IDENTIFIED BY '{password}'"
        )
        done = subprocess.run(argv, input=statements.encode(), capture_output=True, check=False)
        if done.returncode:
            sys.exit("tidb: " + done.stderr.decode(errors="replace").strip())
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()


def wait(process, probe, log):
    """Return when the server answers."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while subprocess.run(probe, capture_output=True, check=False).returncode:
        ended, late = process.poll() is not None, time.monotonic() > deadline
        if ended or late:
            said = " | ".join(log.read_text(errors="replace").splitlines()[-4:])
            how = "ended" if ended else f"does not answer after {READY_TIMEOUT_S} s"
            sys.exit(f"tidb: its first start {how}: {said}")
        time.sleep(0.2)


main(*sys.argv[1:])
