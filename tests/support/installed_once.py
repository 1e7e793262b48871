"""What is installed is looked up once per process: every opened Outrider asks for it several times.

To read the metadata of all distributions takes longer than most tests do. A folder of the path in
which something was installed meanwhile is noticed by its time of change, and all is read again.
"""

import importlib.metadata
import os
import sys
from functools import lru_cache
from typing import Any

_read = importlib.metadata.entry_points


def remember_what_is_installed() -> None:
    """Before Outrider is imported, which takes the function from its module."""
    importlib.metadata.entry_points = _remembered


def _remembered(**params: Any) -> Any:
    return _found(tuple((folder, _changed_at(folder)) for folder in sys.path)).select(**params)


@lru_cache(maxsize=4)
def _found(path: tuple[tuple[str, int], ...]) -> Any:  # noqa: ARG001 - the key
    return _read()


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0
