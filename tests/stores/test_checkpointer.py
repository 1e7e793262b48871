"""SQLite's log goes into the file beside the writer, and is begun again: it does not grow."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from outrider.stores.sqlite import checkpointer
from outrider.stores.sqlite.checkpointer import Checkpointer

PAGES = 100
PAGE_BYTES = 4_096
ROW_PAGES = 5


class Watched(Checkpointer):
    """Tells when it has copied."""

    def __init__(self, connect: "Connect") -> None:
        super().__init__(connect)
        self.copied = threading.Event()

    def _copy_most(self) -> None:
        super()._copy_most()
        self.copied.set()


class Connect:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self) -> apsw.Connection:
        connection = apsw.Connection(str(self.path))
        for pragma in ("journal_mode = wal", "wal_autocheckpoint = 0"):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    @property
    def log_pages(self) -> int:
        return self.path.with_name(self.path.name + "-wal").stat().st_size // PAGE_BYTES


@pytest.fixture
def connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Connect:
    monkeypatch.setattr(checkpointer, "SQLITE_CHECKPOINT_PAGES", PAGES)
    return Connect(tmp_path / "log.db")


@pytest.fixture
def watched(connect: Connect) -> Iterator[Watched]:
    watched = Watched(connect)
    yield watched
    watched.close()


def write(writer: apsw.Connection, rows: int) -> None:
    for _ in range(rows):
        writer.execute("INSERT INTO kept VALUES (zeroblob(?))", (ROW_PAGES * PAGE_BYTES,))


def open_writer(connect: Connect, watched: Watched) -> apsw.Connection:
    writer = connect()
    writer.execute("CREATE TABLE kept (row blob)")
    watched.watch(writer)
    return writer


def fill_and_copy(writer: apsw.Connection, watched: Watched) -> None:
    """Until enough is there to begin a copy, and that has ended; and one commit more, which sees
    that it has."""
    watched.copied.clear()
    for _ in range(3 * PAGES // ROW_PAGES):
        write(writer, 1)
        if watched.copied.wait(0.02):
            break
    assert watched.copied.wait(10)
    write(writer, 1)


def test_the_log_is_restarted_when_it_has_been_copied(connect: Connect, watched: Watched) -> None:
    writer = open_writer(connect, watched)
    for _ in range(10):
        fill_and_copy(writer, watched)
    # More than ten times as much as begins a copy went through it.
    assert connect.log_pages < 3 * PAGES
    writer.close()


def test_a_reader_only_puts_it_off(connect: Connect, watched: Watched) -> None:
    writer, reader = open_writer(connect, watched), connect()
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM kept").fetchall()
    for _ in range(3):
        fill_and_copy(writer, watched)
    grown = connect.log_pages
    assert grown > 3 * PAGES
    reader.execute("ROLLBACK")
    for _ in range(4):
        fill_and_copy(writer, watched)
    # The file keeps its size; what is in it is written over.
    assert connect.log_pages <= grown + PAGES + 2 * ROW_PAGES
    reader.close()
    writer.close()


def test_the_writer_copies_if_no_other_thread_can(
    connect: Connect, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, no more file handles: what waits in the log is not lost, and it is bounded."""
    writer = open_writer(connect, watched)

    def refused() -> apsw.Connection:
        raise apsw.CantOpenError("no more file handles")

    monkeypatch.setattr(watched, "_connect", refused)
    for _ in range(5):
        fill_and_copy(writer, watched)
    assert connect.log_pages < 3 * PAGES
    writer.close()


def test_a_copy_that_fails_is_no_failure_of_the_commit_before_it(
    connect: Connect, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is durable: whoever is told otherwise does it again."""

    def full(_connection: apsw.Connection) -> int:
        raise apsw.FullError("the disk is full")

    writer = open_writer(connect, watched)
    monkeypatch.setattr(checkpointer, "_copy", full)
    for _ in range(3):
        fill_and_copy(writer, watched)
    assert writer.execute("SELECT count(*) FROM kept").get == writer.total_changes()
    writer.close()


@pytest.mark.skipif(not checkpointer.OPEN_FILES.is_dir(), reason="handles are not listed here")
def test_copied_pages_reach_the_disk_without_blocking_the_writer(
    connect: Connect, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer would wait for all of it with its last page."""
    flushed: list[tuple[str, str]] = []
    flush = os.fdatasync

    def noted(handle: int) -> None:
        path = os.readlink(checkpointer.OPEN_FILES / str(handle))
        flushed.append((path, threading.current_thread().name))
        flush(handle)

    monkeypatch.setattr(os, "fdatasync", noted)
    writer = open_writer(connect, watched)
    fill_and_copy(writer, watched)
    assert flushed
    for path, thread in flushed:
        assert path == str(connect.path)
        assert thread.startswith("outrider-sqlite-checkpointer")
    writer.close()
