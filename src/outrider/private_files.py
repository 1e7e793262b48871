"""Files that are their owner's alone, whatever the process's umask is."""

import os
from pathlib import Path
from typing import BinaryIO


def private_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True, mode=0o700)


def new_private_file(path: Path) -> BinaryIO:
    """To write; FileExistsError where there is one."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(handle, "wb")
