#!/usr/bin/python
"""Ansible module: a program run on the host, in a quarter of the time that ``command`` takes.

It is of Ansible's kind *jsonargs*: its arguments are put into this text, and nothing of Ansible is
imported on the host, which is what other modules spend their time on.
"""

import contextlib
import fcntl
import json
import os
import subprocess
from pathlib import Path

DOCUMENTATION = """
module: program
short_description: A program is run on the host
description:
  - Like ansible.builtin.command with argv and stdin, and faster.
options:
  argv: {type: list, elements: str, required: true, description: The program and its arguments.}
  stdin: {type: str, description: What it reads.}
  creates:
    type: str
    description: >-
      A path; where that exists the program is not run. Two programs that create the same are run
      one after the other.
  wait:
    type: bool
    default: true
    description: false, it runs in the background, and a failure shows only when it is run again.
author: benchlab
"""

RETURN = """
rc: {type: int, returned: when it was run, description: Its exit code; another than 0 fails the task.}
stdout: {type: str, returned: when it was run, description: What it printed, without the last newline.}
stderr: {type: str, returned: when it was run, description: Its error output.}
"""

ARGUMENTS = r"""<<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>"""


LOCKS = Path("/run/benchlab")


def run(argv, stdin="", creates=None):
    """Run it; return the result of the task."""
    with alone(creates):
        if creates and Path(creates).exists():
            return {"changed": False, "rc": 0, "stdout": "", "stderr": ""}
        try:
            words = [str(word) for word in argv]  # a variable may be a number
            done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
        except OSError as error:
            said = f"{argv[0]}: {error.strerror}"
            return {"failed": True, "changed": False, "rc": 127, "msg": said}
    said = {"stdout": done.stdout.rstrip("\n"), "stderr": done.stderr.rstrip("\n")}
    failed = {"failed": True, "msg": f"exit code {done.returncode}"} if done.returncode else {}
    return {"changed": True, "rc": done.returncode, **said, **failed}


@contextlib.contextmanager
def alone(creates):
    """Wait for whoever creates the same."""
    if not creates:
        yield
        return
    LOCKS.mkdir(parents=True, exist_ok=True)
    with (LOCKS / (creates.strip("/").replace("/", "-") + ".lock")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def begin(argv, stdin="", creates=None):
    """Run it in the background, in its own session."""
    if os.fork() == 0:
        os.setsid()
        with Path("/dev/null").open("r+b") as nothing:
            for stream in range(3):
                os.dup2(nothing.fileno(), stream)
        run(argv, stdin, creates)
        os._exit(0)
    return {"changed": True}


def main():
    """Run as an Ansible module."""
    given = json.loads(ARGUMENTS)
    if given["_ansible_check_mode"]:
        result = {"skipped": True, "changed": False}
    else:
        arguments = {name: given[name] for name in given if not name.startswith("_ansible_")}
        result = run(**arguments) if arguments.pop("wait", True) else begin(**arguments)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
