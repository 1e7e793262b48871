"""Which worker is gone, and which only cannot be seen (A7)."""

import os
import signal
import subprocess
import sys

import pytest

from outrider.engines import process_identity
from outrider.engines.process_identity import is_dead, presence, start_mark, this_worker
from outrider.ports.presence import Presence

OTHER_BOOT = "00000000-0000-4000-8000-000000000000"


def named(pid: int, mark: str, *, place: str | None = None) -> str:
    host, here, _, _ = this_worker().split("/")
    return "/".join((host, place or here, str(pid), mark))


def waiting_process() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_this_process_runs_and_has_one_name() -> None:
    assert presence(this_worker()) is Presence.RUNS
    assert this_worker() == this_worker()


def test_a_killed_process_counts_as_gone_before_and_after_it_is_reaped() -> None:
    process = waiting_process()
    name = named(process.pid, start_mark(process.pid) or "")
    assert presence(name) is Presence.RUNS
    process.send_signal(signal.SIGSTOP)
    assert presence(name) is Presence.RUNS, "who is frozen is not dead"
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(name)
    process.communicate()
    assert is_dead(name)


def test_a_reused_process_id_does_not_keep_the_old_process_alive() -> None:
    assert is_dead(named(os.getpid(), "1"))


@pytest.mark.parametrize("place", [f"{OTHER_BOOT}.4026531836", f"{OTHER_BOOT}.1", "unknown.x"])
def test_a_machine_or_container_with_the_same_name_declares_no_process_here_dead(
    place: str,
) -> None:
    """A7: the process id means nothing there, whether or not some process has it here."""
    for pid in (os.getpid(), 2**22 + 1):
        assert presence(named(pid, "1", place=place)) is Presence.UNKNOWN
    assert not is_dead(f"{this_worker().split('/')[0]}/{os.getpid()}/1"), (
        "as older workers wrote it"
    )


def test_a_process_that_is_hidden_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A7: where /proc shows only one's own processes, the system still says that it exists."""
    monkeypatch.setattr(process_identity, "start_mark", lambda _pid: None)
    assert presence(named(1, "17")) is Presence.UNKNOWN
    assert presence(named(2**22 + 1, "17")) is Presence.GONE


def test_without_a_known_boot_no_other_process_judges_this_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: "os.PathLike[str]"
) -> None:
    known = this_worker()
    monkeypatch.setattr(process_identity, "BOOT_ID", tmp_path / "none")  # type: ignore[operator]
    monkeypatch.setattr(process_identity, "_place_of", process_identity._place_of.__wrapped__)
    assert presence(known) is Presence.UNKNOWN
