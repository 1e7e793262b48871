"""A call journal as a memory-mapped file: a write costs no system call, and survives the death of
the process that made it.

A record is the text of an outbox id, or zeros. The header names the boot of the machine: after a
reboot the file is worthless, because mapped pages may not have reached the disk.
"""

import hashlib
import mmap
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import structlog

from outrider.domain.ids import Fence, JobId, OutboxId, WorkerId

log = structlog.get_logger()

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SUFFIX = ".calls"
HEADER_BYTES = 64
RECORD_BYTES = 36
RECORDS = 8_192
NOTHING = bytes(RECORD_BYTES)
OVERFLOWED = 1

"""A job, as this worker held it."""


def _boot() -> bytes:
    """For this boot of this machine; empty if the system does not tell."""
    try:
        return hashlib.sha256(BOOT_ID.read_bytes()).digest()
    except OSError:
        return b""


def _path(folder: Path, worker_id: str) -> Path:
    return folder / (hashlib.sha256(worker_id.encode()).hexdigest()[:32] + SUFFIX)


class MappedCallJournal:
    def __init__(self, folder: Path, worker_id: WorkerId) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = _path(folder, worker_id)
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            # Fully allocated from the start: writing to a page for which a full disk has no room
            # would kill the process (SIGBUS).
            os.posix_fallocate(handle, 0, HEADER_BYTES + RECORDS * RECORD_BYTES)
            self._map = mmap.mmap(handle, 0)
        finally:
            os.close(handle)
        self._map[: len(_boot())] = _boot()
        self._free = list(range(RECORDS))
        self._begun: dict[OutboxId, tuple[int, JobId, Fence]] = {}
        """With their places, and under which holding of their job. Few at any time."""

    def begin(self, outbox_id: OutboxId, job_id: JobId, fence: Fence) -> None:
        if outbox_id in self._begun:
            return
        if not self._free:
            # More calls than there is room for: then it makes no statement about any of them.
            self._map[HEADER_BYTES - 1] = OVERFLOWED
            return
        place = self._free.pop()
        start = HEADER_BYTES + place * RECORD_BYTES
        self._map[start : start + RECORD_BYTES] = outbox_id.encode("ascii")
        self._begun[outbox_id] = place, job_id, fence

    def end(self, outbox_ids: Iterable[OutboxId]) -> None:
        for outbox_id in outbox_ids:
            begun = self._begun.pop(outbox_id, None)
            if begun is None:
                continue
            place = begun[0]
            start = HEADER_BYTES + place * RECORD_BYTES
            self._map[start : start + RECORD_BYTES] = NOTHING
            self._free.append(place)

    def forget(self, job_id: JobId, fence: Fence) -> None:
        self.end([each for each, begun in self._begun.items() if begun[1:] == (job_id, fence)])

    def begun(self) -> Sequence[OutboxId] | None:
        return None if self._map[HEADER_BYTES - 1] == OVERFLOWED else list(self._begun)

    def close(self) -> None:
        self._map.close()
        if not self._begun:
            self._path.unlink(missing_ok=True)


class NoCallJournal:
    """For systems where none can be kept: then everything open after a crash is in doubt."""

    def begin(self, outbox_id: OutboxId, job_id: JobId, fence: Fence) -> None:
        pass

    def end(self, outbox_ids: Iterable[OutboxId]) -> None:
        pass

    def forget(self, job_id: JobId, fence: Fence) -> None:
        pass

    def begun(self) -> Sequence[OutboxId] | None:
        return None

    def close(self) -> None:
        pass


def open_journal(folder: Path, worker_id: WorkerId) -> MappedCallJournal | NoCallJournal:
    try:
        return MappedCallJournal(folder, worker_id)
    except OSError as error:
        log.warning("call_journal_unavailable", folder=str(folder), error=str(error))
        return NoCallJournal()


class CallJournalFolder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begun_by(self, worker_id: str) -> Sequence[OutboxId] | None:
        try:
            content = _path(self._folder, worker_id).read_bytes()
        except OSError:
            return None
        boot = _boot()
        whole = len(content) == HEADER_BYTES + RECORDS * RECORD_BYTES
        if not (boot and whole and content.startswith(boot)):
            return None
        if content[HEADER_BYTES - 1] == OVERFLOWED:
            return None
        records = (
            content[start : start + RECORD_BYTES]
            for start in range(HEADER_BYTES, len(content), RECORD_BYTES)
        )
        return [OutboxId(each.decode("ascii")) for each in records if each != NOTHING]

    def forget(self, worker_id: str) -> None:
        _path(self._folder, worker_id).unlink(missing_ok=True)
