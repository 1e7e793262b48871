"""Which process a worker is, precisely enough to know later that it is gone.

A worker id is host, process id and the process's start mark; a reused process id has another mark.
"""

import os
import socket
from pathlib import Path

import psutil

from outrider.domain.ids import WorkerId

_SEPARATOR = "/"


def this_host() -> str:
    """Two containers may share a host name, but then they do not share a process namespace."""
    namespace = Path("/proc/self/ns/pid")
    inode = os.stat(namespace).st_ino if namespace.exists() else 0
    return f"{socket.gethostname()}.{inode}"


def start_mark(pid: int) -> str | None:
    """When the process began, in a form no clock change moves; None if it does not run."""
    try:
        # After the command name in brackets; field 22 of proc(5) is the start in ticks since boot.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return f"{fields[19]}" if fields[0] != "Z" else None
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/stat").exists():
            return None
    try:
        return str(int(psutil.Process(pid).create_time()))
    except psutil.Error:
        return None


def this_worker() -> WorkerId:
    pid = os.getpid()
    return WorkerId(_SEPARATOR.join((this_host(), str(pid), start_mark(pid) or "")))


def is_dead(worker_id: str) -> bool:
    """True only where it is certain: a process of this host that no longer runs."""
    host, _, process = worker_id.partition(_SEPARATOR)
    pid, _, mark = process.partition(_SEPARATOR)
    return host == this_host() and pid.isdigit() and start_mark(int(pid)) != mark
