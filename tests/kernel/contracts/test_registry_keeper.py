"""The registry in force, on real files: replaced whole or not at all, whatever happens."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from outrider.bootstrap import Outrider, open_outrider
from outrider.documents.registry import parse_registry
from outrider.documents.registry_file import LocalRegistryFile
from outrider.domain.errors import InvalidInput
from outrider.domain.states import Channel
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.kernel.contracts.registry_keeper import RegistryKeeper
from outrider.settings import Settings
from outrider.testing.launches import launch, message, people, registry, target

OLD = registry(target("old", "noop", "noop:"))
NEW = registry(target("new", "noop", "noop:"), target("more", "noop", "noop:"))
BAD = registry(target("new", "noop", "noop:"), target("bad", "fax", "noop:"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "registry.json"
    path.write_bytes(OLD)
    return path


@pytest.fixture
def keeper(path: Path) -> RegistryKeeper:
    return keeper_of(path)


def keeper_of(path: Path) -> RegistryKeeper:
    return RegistryKeeper(
        LocalRegistryFile(path), lambda raw: parse_registry(raw, GATEWAY_TYPES).contracts
    )


def test_a_replacement_is_in_force_at_once_and_on_disk(keeper: RegistryKeeper, path: Path) -> None:
    before = keeper.contracts()
    assert set(before) == {"old"}
    assert set(keeper.replace(NEW)) == {"new", "more"}
    assert set(keeper.contracts()) == {"new", "more"}
    assert set(before) == {"old"}, "what a reader holds does not change under it"
    assert path.read_bytes() == NEW
    assert set(keeper_of(path).contracts()) == {"new", "more"}


def test_a_bad_replacement_changes_nothing(keeper: RegistryKeeper, path: Path) -> None:
    keeper.contracts()
    with pytest.raises(InvalidInput) as refused:
        keeper.replace(BAD)
    assert [problem.path for problem in refused.value.problems] == ["targets[1].gatewayType"]
    assert set(keeper.contracts()) == {"old"}
    assert path.read_bytes() == OLD
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_replacement_that_cannot_be_written_changes_nothing(
    keeper: RegistryKeeper, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper.contracts()
    for step in ("fsync", "replace"):
        with monkeypatch.context() as broken:
            broken.setattr(os, step, _disk_full)
            with pytest.raises(InvalidInput, match="No space left"):
                keeper.replace(NEW)
        assert set(keeper.contracts()) == {"old"}
        assert path.read_bytes() == OLD
        assert [each.name for each in path.parent.iterdir()] == [path.name]


def _disk_full(*_arguments: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("step", ["os.fchmod", "os.fsync", "os.replace"])
def test_a_process_that_dies_while_writing_leaves_the_old_registry_whole(
    path: Path, step: str
) -> None:
    script = f"""
import os, signal
from pathlib import Path
from outrider.documents.registry_file import LocalRegistryFile
{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
LocalRegistryFile(Path({str(path)!r})).write({NEW!r})
"""
    died = subprocess.run([sys.executable, "-c", script], check=False)
    assert died.returncode == -9
    assert path.read_bytes() == OLD


def test_the_content_is_synced_before_the_rename_and_the_folder_after_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        steps.append("folder" if Path(f"/proc/self/fd/{descriptor}").is_dir() else "file")
        sync(descriptor)

    def replaced(source: str, target: Path) -> None:
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    LocalRegistryFile(path).write(NEW)
    assert steps == ["file", "rename", "folder"]


def test_a_replacement_keeps_the_files_mode_and_a_link_to_it(path: Path) -> None:
    path.chmod(0o640)
    link = path.with_name("link.json")
    link.symlink_to(path)
    LocalRegistryFile(link).write(NEW)
    assert link.is_symlink()
    assert path.read_bytes() == NEW
    assert path.stat().st_mode & 0o777 == 0o640


def test_readers_beside_a_writer_see_the_old_or_the_new_and_never_half(
    keeper: RegistryKeeper, path: Path
) -> None:
    whole = {frozenset({"old"}), frozenset({"new", "more"})}
    seen: set[frozenset[str]] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(frozenset(keeper.contracts()))
            seen.add(frozenset(parse_registry(path.read_bytes(), GATEWAY_TYPES).contracts))

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for _ in range(50):
        keeper.replace(NEW)
        keeper.replace(OLD)
    done.set()
    for reader in readers:
        reader.join()
    assert seen == whole


def test_writers_beside_each_other_leave_file_and_memory_the_same(
    keeper: RegistryKeeper, path: Path
) -> None:
    writers = [
        threading.Thread(target=keeper.replace, args=(raw,)) for raw in [OLD, NEW] * 10
    ]  # fmt: skip
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert dict(keeper.contracts()) == dict(keeper_of(path).contracts())


def test_a_reload_takes_what_is_on_disk_now(keeper: RegistryKeeper, path: Path) -> None:
    keeper.contracts()
    path.write_bytes(NEW)
    assert set(keeper.contracts()) == {"old"}
    assert keeper.reload()
    assert set(keeper.contracts()) == {"new", "more"}


@pytest.mark.parametrize("raw", [BAD, b"{", None])
def test_a_bad_file_is_reported_on_reload_and_the_old_contracts_stay(
    keeper: RegistryKeeper, path: Path, raw: bytes | None
) -> None:
    keeper.contracts()
    path.unlink() if raw is None else path.write_bytes(raw)
    with capture_logs() as logs:
        assert not keeper.reload()
    assert set(keeper.contracts()) == {"old"}
    [line] = logs
    assert (line["event"], line["log_level"]) == ("registry_reload_refused", "error")
    assert raw is None or line["problems"]


def test_a_registry_that_is_bad_from_the_start_is_an_error(path: Path) -> None:
    path.write_bytes(BAD)
    with pytest.raises(InvalidInput):
        keeper_of(path).contracts()


async def test_the_deployer_sees_a_reload(path: Path, tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/outrider.db", registry=path)
    async with open_outrider(settings) as outrider:
        await outrider.store.migrate()
        await _launch(outrider, "old")
        with pytest.raises(InvalidInput):
            await _launch(outrider, "new")
        outrider.registry_keeper.replace(NEW)
        await _launch(outrider, "new")
        assert set(outrider.registry.contracts) == {"new", "more"}


async def _launch(outrider: Outrider, target_name: str) -> None:
    await launch(outrider, [message(Channel.SMS, target_name)], people(1))
