"""Which process a worker is, precisely enough to know later that it is gone.

A worker id is host, boot and process namespace, process id and the process's start mark: no two
processes share one, even across machines with the same name. A process is gone only if it is of
this boot and namespace and the system says that no such process runs. Otherwise it may be alive.
"""

import os
import secrets
import socket
from functools import lru_cache
from pathlib import Path

import psutil

from outrider.domain.ids import WorkerId
from outrider.ports.presence import Presence

_SEPARATOR = "/"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PID_NAMESPACE = Path("/proc/self/ns/pid")


def this_host() -> str:
    return socket.gethostname()


@lru_cache(maxsize=1)
def _place_of(pid: int) -> str:  # noqa: ARG001 - a forked process looks for itself
    """The boot of the machine and the process namespace, within which process ids are comparable.
    If the system does not say, a unique name: then no other process can judge this one."""
    try:
        boot = BOOT_ID.read_text().strip()
        return f"{boot}.{os.stat(PID_NAMESPACE).st_ino}"
    except OSError:
        return f"unknown.{secrets.token_hex(16)}"


def this_place() -> str:
    return _place_of(os.getpid())


def start_mark(pid: int) -> str | None:
    """When the process started, unaffected by clock changes; None if it cannot be seen."""
    try:
        # After the command name in brackets; field 22 of proc(5) is the start in ticks since boot.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[19]
    except (OSError, IndexError):
        pass
    try:
        return str(int(psutil.Process(pid).create_time()))
    except (psutil.Error, OSError):
        # Hidden; or this process is out of file handles.
        return None


@lru_cache(maxsize=1)
def _worker_of(pid: int) -> WorkerId:
    mark = start_mark(pid) or secrets.token_hex(8)
    return WorkerId(_SEPARATOR.join((this_host(), this_place(), str(pid), mark)))


def this_worker() -> WorkerId:
    return _worker_of(os.getpid())


def presence(worker_id: str) -> Presence:
    """The state of that worker's process, as far as it can be seen from here."""
    parts = worker_id.split(_SEPARATOR)
    if len(parts) != 4 or parts[1] != this_place() or not parts[2].isdigit():
        return Presence.UNKNOWN
    pid, mark = int(parts[2]), parts[3]
    if not _exists(pid):
        return Presence.GONE
    found = start_mark(pid)
    if found is None:
        # Another user's and hidden, or just gone, which the next check will show.
        return Presence.UNKNOWN
    return Presence.RUNS if found == mark and not _is_zombie(pid) else Presence.GONE


def is_dead(worker_id: str) -> bool:
    """True only if it is certain."""
    return presence(worker_id) is Presence.GONE


def _exists(pid: int) -> bool:
    """Whether any process has that id now. The system answers this even if it hides the rest."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except (psutil.Error, OSError):
        return False
