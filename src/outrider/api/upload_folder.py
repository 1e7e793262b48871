"""The folder for large bodies while a server reads them, and the leftovers of dead servers.

A live server holds a lock on its folder, which the system releases with the process, however it
ended. An unlocked folder is removed by the next server that starts.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

import structlog

log = structlog.get_logger()

PREFIX = "outrider-uploads-"
LEFT_OVERS_MAX = 1_000


class UploadFolder:
    def __init__(self) -> None:
        self._path: Path | None = None
        self._lock: int | None = None

    @property
    def path(self) -> Path:
        """Created on first use; 0700, as the system makes temporary folders."""
        if self._path is None:
            # Under a temporary name: until it is locked, another server would take it for a
            # leftover.
            made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
            lock = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            named = made.with_name(made.name.removeprefix("."))
            made.rename(named)
            self._path, self._lock = named, lock
        return self._path

    def close(self) -> None:
        if self._path is not None and self._lock is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            os.close(self._lock)
            self._path = self._lock = None


def remove_left_overs() -> int:
    """Those of killed servers; returns how many folders there were."""
    removed = 0
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))[:LEFT_OVERS_MAX]:
        try:
            if path.is_symlink() or path.stat().st_uid != os.getuid():
                continue
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
            removed += 1
        except BlockingIOError:
            # Locked by a live server.
            continue
        except OSError as error:
            log.warning("left_over_upload_not_removed", path=str(path), error=error.strerror)
        finally:
            os.close(lock)
    if removed:
        log.info("left_over_uploads_removed", folders=removed)
    return removed
