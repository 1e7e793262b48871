"""Files that are their owner's alone, whatever the process's umask is."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

import structlog

log = structlog.get_logger()


def private_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True, mode=0o700)


def new_private_file(path: Path) -> BinaryIO:
    """To write; FileExistsError where there is one."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(handle, "wb")


def keep_others_out(path: Path) -> None:
    """A file that everybody may use is its owner's alone from now on; by its name, unopened.

    One that only a group shares is an operator's wish. Another user's file is left as it is, with a
    warning, and one that is not there is no matter.
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
