"""The call journal: what a dead worker had begun, and nothing where nobody can know. X15."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from outrider.domain.ids import Fence, JobId, OutboxId, WorkerId
from outrider.files import call_journal
from outrider.files.call_journal import (
    HEADER_BYTES,
    RECORD_BYTES,
    RECORDS,
    CallJournalFolder,
    MappedCallJournal,
    open_journal,
)
from outrider.system import SystemIds

JOB = JobId("job")
WORKER = WorkerId("host/1/2")
IDS = [OutboxId(each) for each in SystemIds().batch(RECORDS + 1)]


def test_calls_started_and_not_ended_are_read_back(tmp_path: Path) -> None:
    journal = MappedCallJournal(tmp_path, WORKER)
    for outbox_id in IDS[:3]:
        journal.begin(outbox_id, JOB, Fence(1))
    journal.end([IDS[1], IDS[9]])
    assert set(CallJournalFolder(tmp_path).begun_by(WORKER) or ()) == {IDS[0], IDS[2]}


def _begin_and_die(folder: Path, begun: list[OutboxId], ended: list[OutboxId]) -> None:
    journal = MappedCallJournal(folder, WORKER)
    for outbox_id in begun:
        journal.begin(outbox_id, JOB, Fence(1))
    journal.end(ended)
    os.kill(os.getpid(), signal.SIGKILL)


def test_it_survives_a_process_that_is_killed(tmp_path: Path) -> None:
    given = tmp_path, IDS[:100], IDS[:40]
    worker = multiprocessing.get_context("spawn").Process(target=_begin_and_die, args=given)
    worker.start()
    worker.join(60)
    assert worker.exitcode == -signal.SIGKILL
    assert set(CallJournalFolder(tmp_path).begun_by(WORKER) or ()) == set(IDS[40:100])


def test_after_another_boot_it_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    MappedCallJournal(tmp_path, WORKER).begin(IDS[0], JOB, Fence(1))
    other = tmp_path / "boot_id"
    other.write_text("another boot")
    monkeypatch.setattr(call_journal, "BOOT_ID", other)
    assert CallJournalFolder(tmp_path).begun_by(WORKER) is None


def test_with_more_calls_than_it_can_record_the_journal_is_unknown(tmp_path: Path) -> None:
    journal = MappedCallJournal(tmp_path, WORKER)
    for outbox_id in IDS:
        journal.begin(outbox_id, JOB, Fence(1))
    assert CallJournalFolder(tmp_path).begun_by(WORKER) is None


@pytest.mark.parametrize("content", [b"", b"x" * (HEADER_BYTES - 1), b"\0" * 10_000])
def test_a_damaged_or_missing_journal_says_nothing(tmp_path: Path, content: bytes) -> None:
    folder = CallJournalFolder(tmp_path)
    assert folder.begun_by(WORKER) is None
    MappedCallJournal(tmp_path, WORKER)
    [path] = tmp_path.iterdir()
    path.write_bytes(content)
    assert folder.begun_by(WORKER) is None


def test_a_worker_that_ends_in_good_order_leaves_nothing_behind(tmp_path: Path) -> None:
    journal = MappedCallJournal(tmp_path, WORKER)
    journal.begin(IDS[0], JOB, Fence(1))
    journal.end([IDS[0]])
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_stops_no_worker(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = open_journal(tmp_path / "file", WORKER)
    journal.begin(IDS[0], JOB, Fence(1))
    journal.close()
    assert CallJournalFolder(tmp_path / "file").begun_by(WORKER) is None


def test_a_journal_has_its_room_on_the_disk_before_the_first_call(tmp_path: Path) -> None:
    """X4: where the disk was full by then, the first write ended the process."""
    journal = MappedCallJournal(tmp_path, WORKER)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_blocks * 512 >= HEADER_BYTES + RECORDS * RECORD_BYTES
    journal.close()


def test_items_left_by_an_ended_job_end_with_it_and_no_others_do(tmp_path: Path) -> None:
    journal = MappedCallJournal(tmp_path, WORKER)
    journal.begin(IDS[0], JOB, Fence(1))
    journal.begin(IDS[1], JOB, Fence(2))
    journal.begin(IDS[2], JobId("another"), Fence(1))
    journal.forget(JOB, Fence(1))
    assert set(journal.begun() or ()) == {IDS[1], IDS[2]}, "held again, it has calls of its own"
    journal.forget(JOB, Fence(9))
    journal.end([IDS[1], IDS[2]])
    assert journal.begun() == []
