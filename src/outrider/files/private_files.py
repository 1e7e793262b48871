"""Files that only their owner can access, whatever the process's umask is."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

import structlog

log = structlog.get_logger()


def private_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True, mode=0o700)


def new_private_file(path: Path) -> BinaryIO:
    """Opened for writing; raises FileExistsError if it exists."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(handle, "wb")


def keep_others_out(path: Path) -> None:
    """Restrict a file that is open to everyone to its owner; by name, without opening it.

    Access by a group alone is the operator's choice. Another user's file is left unchanged, with a
    warning, and a missing one is ignored.
    """
    try:
        found = stat.S_IMODE(path.stat().st_mode)
        if found & stat.S_IRWXO:
            os.chmod(path, found & stat.S_IRWXU)
            log.warning("file_made_private", path=str(path), mode_before=f"{found:04o}")
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("file_open_to_everybody", path=str(path), error=error.strerror)
