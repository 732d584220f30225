#!/usr/bin/python
"""Ansible module: files and folders with exactly this content, owner and mode, in one round trip.

Like ``program`` it is of Ansible's kind *jsonargs*, which begins sooner than others.
"""

import contextlib
import grp
import json
import os
import pwd
import shutil
import stat
import tempfile
from pathlib import Path

DOCUMENTATION = """
module: managed_files
short_description: Files and folders with exactly this content, owner and mode
description:
  - Converges many small files in one module call, where copy and file would need two calls each.
  - Every file is written beside its place and then moved there, so that no reader sees half of it.
options:
  files:
    description: What is to be there (or not), in this order.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {type: path, required: true, description: Absolute path.}
      state:
        type: str
        choices: [file, directory, absent]
        default: file
        description: Absent removes a folder with all that it holds.
      content: {type: str, description: Text of the file.}
      owner: {type: str, default: root, description: Name of the owning user.}
      group: {type: str, default: root, description: Name of the owning group.}
      mode: {type: str, description: Octal. Default 0644 for a file, 0755 for a folder.}
  trees:
    description:
      - Flat folders that hold exactly the named files (path to a dict of name to text).
      - Python's byte-code caches are left alone.
    type: dict
    default: {}
author: benchlab
"""

RETURN = """
paths:
  description: What was changed.
  type: list
  elements: str
  returned: always
"""

ARGUMENTS = r"""<<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>"""

DEFAULTS = {"state": "file", "content": None, "owner": "root", "group": "root", "mode": None}
STATES = ("file", "directory", "absent")


def expand(files, trees):
    """Return ``files`` with the entries that make up ``trees`` appended."""
    entries = list(files)
    for folder, texts in sorted(trees.items()):
        common = {"owner": "root", "group": "root", "mode": None}
        entries.append({"path": folder, "state": "directory", **common})
        present = [one.name for one in Path(folder).iterdir()] if Path(folder).is_dir() else []
        for name in sorted(set(present) - set(texts) - {"__pycache__"}):
            entries.append({"path": str(Path(folder) / name), "state": "absent", **common})
        for name, text in sorted(texts.items()):
            path = str(Path(folder) / name)
            entries.append({"path": path, "state": "file", "content": text, **common})
    return entries


def converge(entry, dry):
    """Bring one entry to its state unless ``dry``; return whether anything differed."""
    path = entry["path"]
    found = os.lstat(path) if os.path.lexists(path) else None
    if entry["state"] == "absent":
        if found and not dry:
            shutil.rmtree(path) if stat.S_ISDIR(found.st_mode) else Path(path).unlink()
        return found is not None
    # in a dry run the user may not exist yet
    try:
        uid = pwd.getpwnam(entry["owner"]).pw_uid
        gid = grp.getgrnam(entry["group"]).gr_gid
    except KeyError:
        if dry:
            return True
        raise
    if entry["state"] == "directory":
        if found and Path(path).is_dir():  # so is a link to one, on a larger disk for example
            found = Path(path).stat()
        mode = int(entry["mode"] or "0755", 8)
        right = bool(found) and stat.S_ISDIR(found.st_mode)
        if not right and not dry:
            Path(path).mkdir(parents=True)
    else:
        mode = int(entry["mode"] or "0644", 8)
        wanted = (entry["content"] or "").encode()
        right = bool(found) and stat.S_ISREG(found.st_mode) and read(path) == wanted
        if not right and not dry:
            replace(path, wanted, uid, gid, mode)
    owned = right and (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (uid, gid, mode)
    if not owned and not dry:
        os.chown(path, uid, gid)
        Path(path).chmod(mode)
    return not owned


def read(path):
    """Return the bytes of a file."""
    return Path(path).read_bytes()


def replace(path, content, uid, gid, mode):
    """Put ``content`` at ``path`` in one step, never readable by more than ``mode`` allows."""
    handle, draft = tempfile.mkstemp(dir=Path(path).parent, prefix=".benchlab-")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        os.chown(draft, uid, gid)
        Path(draft).chmod(mode)
        Path(draft).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(draft).unlink()
        raise


def entries(files, trees):
    """Return every option of all that is requested.

    Raises:
        ValueError: an option or a state is unknown.
    """
    for one in files:
        if unknown := set(one) - {"path", *DEFAULTS}:
            raise ValueError(f"unknown option {', '.join(sorted(unknown))}")
        if one.get("state", "file") not in STATES:
            raise ValueError(f"unknown state {one['state']}; choose from {', '.join(STATES)}")
    return expand([DEFAULTS | one for one in files], trees)


def main():
    """Run as an Ansible module."""
    given = json.loads(ARGUMENTS)
    changed, path = [], ""
    result = {"paths": changed}
    try:
        for entry in entries(given.get("files", []), given.get("trees", {})):
            path = entry["path"]
            if converge(entry, given["_ansible_check_mode"]):
                changed.append(path)
    except (OSError, KeyError, ValueError) as error:
        result |= {"failed": True, "msg": f"{path}: {error}"}
    print(json.dumps({**result, "changed": bool(changed)}))


if __name__ == "__main__":
    main()
