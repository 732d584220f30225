"""Make a data directory of seekdb, whole or not at all, with a password and an empty database.

init.py USER SERVER_DIR DATA_DIR ETC_DIR PORT DATABASE CLIENT PARAMETER=VALUE...

Runs as root in a network namespace of its own. In ETC_DIR it leaves ``defaults.json``: parameter to
default, as the server reports them.
"""

import json
import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path

#: The server does not start where no interface but the loopback is up; this one leads nowhere.
NETWORK = (
    "link set lo up",
    "link add benchlab0 type veth peer name benchlab1",
    "address add 192.0.2.1/32 dev benchlab0",
    "link set benchlab0 up",
    "link set benchlab1 up",
)
READY_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60


def main(user, server, data_dir, etc, port, database, client, *parameters):
    """Make it."""
    account = pwd.getpwnam(user)
    draft = Path(data_dir + ".partial")
    password = (Path("/etc/benchlab/secrets") / Path(etc).name).read_text().strip()
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    os.chown(draft, account.pw_uid, account.pw_gid)
    for command in NETWORK:
        subprocess.run(["ip", *command.split()], check=True)
    argv = [server + "/seekdb", "--nodaemon", "--port", port, "--base-dir", str(draft)]
    for parameter in parameters:
        argv += ["--parameter", parameter]
    process = subprocess.Popen(
        argv,
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "HOME": account.pw_dir},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        sql = Sql(client, port)
        sql.wait(process)
        defaults = sql.parameters()
        sql.run(
            f"CREATE DATABASE `{database}`; ALTER USER root IDENTIFIED BY '{password}';"
            # seekdb's own default is the time of Shanghai, whatever the host's is
            " SET GLOBAL time_zone = '+00:00'"
        )
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for name in ("log", "run"):
        shutil.rmtree(draft / name, ignore_errors=True)
    text = json.dumps(defaults, indent=1, sort_keys=True) + "\n"
    (Path(etc) / "defaults.json").write_text(text)
    shutil.rmtree(data_dir, ignore_errors=True)
    draft.rename(data_dir)


class Sql:
    """Statements by the command-line client, as the administrator without a password."""

    def __init__(self, client, port):
        self.argv = [client, "--no-defaults", "--protocol=tcp", "--host=127.0.0.1"]
        self.argv += ["--port=" + port, "--user=root", "--batch"]

    def run(self, statements):
        """Run them and return what the client printed; a refusal ends the program."""
        done = subprocess.run(
            self.argv, input=statements.encode(), capture_output=True, check=False
        )
        if done.returncode:
            sys.exit("seekdb: " + done.stderr.decode(errors="replace").strip())
        return done.stdout.decode()

    def wait(self, process):
        """Return when the server answers."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        probe = [*self.argv, "--execute=SELECT 1"]
        while subprocess.run(probe, capture_output=True, check=False).returncode:
            if process.poll() is not None:
                sys.exit(
                    f"seekdb ended with exit code {process.returncode} at its first start, without a"
                    " reason: it takes none of these parameters' values or the disk is full: "
                    + " ".join(sys.argv[8:])
                )
            if time.monotonic() > deadline:
                sys.exit(f"seekdb does not answer {READY_TIMEOUT_S} s after its first start")
            time.sleep(0.1)

    def parameters(self):
        """Return the default of every parameter that has one."""
        head, *lines = self.run("SHOW PARAMETERS").splitlines()
        columns = head.split("\t")
        rows = (dict(zip(columns, line.split("\t"), strict=False)) for line in lines)
        return {row["name"]: row["default_value"] for row in rows if row.get("default_value")}


main(*sys.argv[1:])
