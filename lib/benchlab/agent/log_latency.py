"""Latency of an engine's durable writes to its log: probed while it is idle, traced under load."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from pathlib import Path

from .config import AgentError, EngineConfig

#: A commit of a small transaction makes one page of the log durable.
_PROBE_BYTES = 8192
_PROBE_S = 0.25
_PROBE_FILE = "benchlab-probe"

#: Buckets of the histograms are 0.1 ms wide; the last one has everything from 10 ms.
_BUCKETS = "0, 10000, 100"

#: $1 is the device of the log's file system. It excludes other engines of this kernel, such as a lab's
#: standby. A flush lasts from a thread's first write after its last sync to the end of its next sync.
#: Syscall tracepoints have only the number of an open file, so the script looks up its folder's name.
_SCRIPT = """
tracepoint:syscalls:sys_enter_pwrite64 /comm == "{program}"/ {
  $slot = curtask->files->fdt->fd + args->fd; $file = *$slot;
  if ($file->f_inode->i_sb->s_dev == $1
      && str($file->f_path.dentry->d_parent->d_name.name) == "{folder}") {
    @write_begin[tid] = nsecs;
    @bytes = sum(args->count);
    if (!@flush_begin[tid]) { @flush_begin[tid] = nsecs; }
  }
}
tracepoint:syscalls:sys_exit_pwrite64 /@write_begin[tid]/ {
  $ns = nsecs - @write_begin[tid];
  @write = lhist($ns / 1000, {buckets}); @write_ns = sum($ns);
  delete(@write_begin[tid]);
}
tracepoint:syscalls:sys_enter_fdatasync /comm == "{program}"/ {
  $slot = curtask->files->fdt->fd + args->fd; $file = *$slot;
  if ($file->f_inode->i_sb->s_dev == $1
      && str($file->f_path.dentry->d_parent->d_name.name) == "{folder}") {
    @sync_begin[tid] = nsecs;
  }
}
tracepoint:syscalls:sys_exit_fdatasync /@sync_begin[tid]/ {
  $ns = nsecs - @sync_begin[tid];
  @sync = lhist($ns / 1000, {buckets}); @sync_ns = sum($ns);
  delete(@sync_begin[tid]);
  if (@flush_begin[tid]) {
    @flush = lhist((nsecs - @flush_begin[tid]) / 1000, {buckets});
    delete(@flush_begin[tid]);
  }
}
interval:s:1 {
  printf("%s\\n", strftime("%s.%f", nsecs));
  print(@write); print(@sync); print(@flush);
  print(@write_ns); print(@sync_ns); print(@bytes);
  clear(@write); clear(@sync); clear(@flush);
  clear(@write_ns); clear(@sync_ns); clear(@bytes);
}
END {
  clear(@write); clear(@sync); clear(@flush);
  clear(@write_ns); clear(@sync_ns); clear(@bytes);
  clear(@write_begin); clear(@sync_begin); clear(@flush_begin);
}
"""

#: bpftrace expects both file systems at their default paths. It runs in its own mount namespace, so
#: these mounts end with it.
_WITH_TRACEFS = """
[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing
[ -e /sys/kernel/debug/tracing/events ] || mount -t debugfs debugfs /sys/kernel/debug
[ -e /sys/kernel/debug/tracing/events ] || mount --bind /sys/kernel/tracing /sys/kernel/debug/tracing
exec "$@"
"""


def probe(engine: EngineConfig, folder: str) -> dict[str, float]:
    """Return the time of the probe, and the median time to make 8 KiB in the log's folder durable.

    The probe overwrites a file that was written before, as engines overwrite segments of a log.
    ``t`` is in Unix seconds, ``durable_write_ns`` in nanoseconds.
    """
    path, page = _log(engine, folder) / _PROBE_FILE, bytes(_PROBE_BYTES)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    took = []
    try:
        os.pwrite(file, page, 0)
        os.fsync(file)
        end = time.monotonic() + _PROBE_S
        while time.monotonic() < end:
            began = time.monotonic_ns()
            os.pwrite(file, page, 0)
            os.fdatasync(file)
            took.append(time.monotonic_ns() - began)
    finally:
        os.close(file)
        path.unlink()
    return {"t": round(time.time(), 6), "durable_write_ns": statistics.median(took)}


def trace(engine: EngineConfig, folder: str) -> None:
    """Trace system calls that write and sync the log's files, until SIGINT; never returns.

    Prints bpftrace's JSON: each second the time, histograms in µs, and sums. Raises AgentError if
    bpftrace is not installed.
    """
    if not shutil.which("bpftrace"):
        raise AgentError("bpftrace is not installed on this host")
    device = _log(engine, folder).stat().st_dev
    (variant, *_) = engine.variants.values()
    program = Path(variant.services[-1].start[0]).name[:15]  # as the kernel keeps it, TASK_COMM_LEN
    script = (
        _SCRIPT.replace("{program}", program)
        .replace("{folder}", folder)
        .replace("{buckets}", _BUCKETS)
    )
    # in the kernel a device number has the minor in the low 20 bits, in user space it is split
    number = str(os.major(device) << 20 | os.minor(device))
    command = ["bpftrace", "-f", "json", "-e", script, number]
    os.execvp("unshare", ["unshare", "--mount", "sh", "-ec", _WITH_TRACEFS, "sh", *command])


def _log(engine: EngineConfig, folder: str) -> Path:
    """Return the folder with the log's files. Raises AgentError if it does not exist."""
    path = (engine.data_dir / folder).resolve()
    if not path.is_dir():
        raise AgentError(f"engine {engine.engine}: no folder {path}")
    return path
