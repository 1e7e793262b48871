"""Artifacts in a folder: never seen half, never outside their run's own folder."""

import asyncio
import hashlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.domain.errors import InvalidInput, NotFound
from outrider.files import artifact_store
from outrider.files.artifact_store import LocalArtifacts
from outrider.limits.artifacts import ARTIFACT_LEFTOVER_SECONDS, ARTIFACT_PIECE_BYTES

RUN = "01a1e212-4aac-7faa-b47f-af878338aa53"
OTHER_RUN = "01a1e212-4aac-7faa-b47f-000000000000"
PATIENCE_SECONDS = 60


async def pieces(*content: bytes) -> AsyncIterator[bytes]:
    for piece in content:
        yield piece


async def read(artifacts: LocalArtifacts, reference: str) -> bytes:
    return b"".join([piece async for piece in artifacts.read(reference)])


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def artifacts(root: Path) -> LocalArtifacts:
    return LocalArtifacts(root)


async def test_an_artifact_is_read_back_with_its_size_and_digest(
    artifacts: LocalArtifacts, root: Path
) -> None:
    stored = await artifacts.put(RUN, "results.csv", pieces(b"one,", b"", b"two"))
    assert stored.size_bytes == 7
    assert stored.sha256 == hashlib.sha256(b"one,two").hexdigest()
    assert await read(artifacts, stored.reference) == b"one,two"
    assert files(root) == {f"{RUN}/results.csv"}


async def test_an_empty_artifact_is_allowed(artifacts: LocalArtifacts) -> None:
    stored = await artifacts.put(RUN, "empty.csv", pieces())
    assert stored.size_bytes == 0
    assert await read(artifacts, stored.reference) == b""


async def test_a_second_put_replaces_the_first_and_a_reader_keeps_what_it_opened(
    artifacts: LocalArtifacts, root: Path
) -> None:
    old = b"a" * (ARTIFACT_PIECE_BYTES + 1)
    stored = await artifacts.put(RUN, "report.html", pieces(old))
    reading = artifacts.read(stored.reference)
    begun = await anext(aiter(reading))
    again = await artifacts.put(RUN, "report.html", pieces(b"new"))
    assert again.reference == stored.reference
    assert begun + b"".join([piece async for piece in reading]) == old
    assert await read(artifacts, again.reference) == b"new"
    assert files(root) == {f"{RUN}/report.html"}


async def test_puts_of_the_same_artifact_at_once_leave_one_of_them_whole(
    artifacts: LocalArtifacts, root: Path
) -> None:
    contents = [bytes([65 + number]) * 10_000 for number in range(8)]
    await asyncio.gather(
        *(
            artifacts.put(RUN, "report.html", pieces(each[:5_000], each[5_000:]))
            for each in contents
        )
    )
    assert await read(artifacts, f"file:{RUN}/report.html") in contents
    assert files(root) == {f"{RUN}/report.html"}


@pytest.mark.parametrize("existing", [False, True])
async def test_content_that_ends_in_an_error_leaves_nothing_of_itself(
    artifacts: LocalArtifacts, root: Path, existing: bool
) -> None:
    if existing:
        await artifacts.put(RUN, "report.html", pieces(b"old"))

    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise RuntimeError("the store went away")

    with pytest.raises(RuntimeError):
        await artifacts.put(RUN, "report.html", broken())
    assert files(root) == ({f"{RUN}/report.html"} if existing else set())
    if existing:
        assert await read(artifacts, f"file:{RUN}/report.html") == b"old"


async def test_a_put_that_is_cancelled_leaves_nothing_of_itself(
    artifacts: LocalArtifacts, root: Path
) -> None:
    reached = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"half"
        reached.set()
        await asyncio.Event().wait()

    putting = asyncio.create_task(artifacts.put(RUN, "report.html", endless()))
    await reached.wait()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert files(root) == set()


async def test_an_artifact_over_the_limit_is_refused_and_leaves_nothing(
    artifacts: LocalArtifacts, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact_store, "ARTIFACT_MAX_BYTES", 10)
    await artifacts.put(RUN, "fits", pieces(b"0123456789"))
    with pytest.raises(InvalidInput, match="over 10 bytes"):
        await artifacts.put(RUN, "too-large", pieces(b"01234", b"567890"))
    assert files(root) == {f"{RUN}/fits"}


def _put_and_be_killed(root: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"x" * 3_000_000
        os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(LocalArtifacts(root).put(RUN, "report.html", endless()))


async def test_a_process_killed_midway_leaves_the_old_artifact_whole_and_the_way_free(
    artifacts: LocalArtifacts, root: Path
) -> None:
    await artifacts.put(RUN, "report.html", pieces(b"old"))
    process = multiprocessing.get_context("spawn").Process(target=_put_and_be_killed, args=(root,))
    process.start()
    await asyncio.to_thread(process.join, PATIENCE_SECONDS)
    assert process.exitcode == -signal.SIGKILL
    assert await read(artifacts, f"file:{RUN}/report.html") == b"old"
    await artifacts.put(RUN, "report.html", pieces(b"new"))
    assert await read(artifacts, f"file:{RUN}/report.html") == b"new"


async def test_an_artifact_is_on_disk_with_its_name_before_it_is_announced(
    artifacts: LocalArtifacts, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it must have left the process when it is synced; a rename is durable once the folder
    that records it is."""
    synced: list[tuple[Path, int]] = []

    def sync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        synced.append((path, os.fstat(descriptor).st_size))

    monkeypatch.setattr(os, "fsync", sync)
    await artifacts.put(RUN, "report.html", pieces(b"a small", b" report"))
    (beside, size), *folders = synced
    assert beside.name.startswith(".report.html.")
    assert size == len(b"a small report")
    assert [path for path, _ in folders] == [root / RUN, root], "the run's folder is new too"


async def test_leftovers_of_a_killed_writer_are_removed_by_the_next_put_after_an_hour(
    artifacts: LocalArtifacts, root: Path
) -> None:
    await artifacts.put(RUN, "report.html", pieces(b"old"))
    long_ago = time.time() - ARTIFACT_LEFTOVER_SECONDS - 1
    leftover, young, stranger, elsewhere = (
        root / RUN / f".report.html.{'0' * 16}",
        root / RUN / f".report.html.{'1' * 16}",
        root / RUN / ".report.html.somebodys",
        root / f".report.html.{'0' * 16}",
    )
    for path in (leftover, young, stranger, elsewhere):
        path.write_bytes(b"half")
        if path is not young:
            os.utime(path, (long_ago, long_ago))
    await artifacts.put(RUN, "results.csv", pieces(b"new"))
    assert not leftover.exists()
    assert all(path.exists() for path in (young, stranger, elsewhere))
    assert await read(artifacts, f"file:{RUN}/report.html") == b"old"


# Names and references of strangers


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", f"../{OTHER_RUN}/report.html", "a/b", "/etc/passwd", "a\0b", "x/..",
     "a?b", "a#b", "a%2fb", "a\\b", f".report.html.{'0' * 16}"],
)  # fmt: skip
async def test_a_name_that_is_not_one_is_refused_and_writes_nothing(
    artifacts: LocalArtifacts, root: Path, name: str
) -> None:
    await artifacts.put(OTHER_RUN, "report.html", pieces(b"theirs"))
    with pytest.raises(InvalidInput):
        await artifacts.put(RUN, name, pieces(b"mine"))
    assert files(root) == {f"{OTHER_RUN}/report.html"}
    assert await read(artifacts, f"file:{OTHER_RUN}/report.html") == b"theirs"


@pytest.mark.parametrize("folder", ["", ".", "..", "../out", "/tmp/out", "a/b", "a\0b"])
async def test_a_folder_that_is_not_one_is_refused_and_writes_nothing(
    artifacts: LocalArtifacts, root: Path, folder: str
) -> None:
    with pytest.raises(InvalidInput):
        await artifacts.put(folder, "report.html", pieces(b"mine"))
    assert files(root.parent) == set()


@pytest.mark.parametrize(
    "reference",
    [
        "file:../secret",
        "file:/etc/passwd",
        f"file:{RUN}/../../secret",
        "file:link/secret",
        "file:",
        f"file:{RUN}",
        "file:nobody/knows",
        "file:///etc/passwd",
        "file:///x/../secret",
        f"file:///{RUN}/%2e%2e/%2e%2e/secret",
        "file:a\0b",
        "https://example.test/report.html",
    ],
)
async def test_a_reference_that_leads_elsewhere_finds_nothing(
    artifacts: LocalArtifacts, root: Path, reference: str
) -> None:
    await artifacts.put(RUN, "report.html", pieces(b"mine"))
    (root.parent / "secret").write_text("secret")
    (root / "link").symlink_to(root.parent)
    with pytest.raises(NotFound):
        await read(artifacts, reference)


async def test_a_folder_whose_name_starts_like_the_root_is_outside_it(
    artifacts: LocalArtifacts, root: Path
) -> None:
    beside = root.with_name(root.name + "-secret")
    beside.mkdir()
    (beside / "x").write_text("secret")
    with pytest.raises(NotFound):
        await read(artifacts, f"file:../{beside.name}/x")


OTHER_PROCESS = """
import sys, urllib.request
sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1]).read())
"""


async def test_anyone_who_reads_a_reference_can_follow_it(artifacts: LocalArtifacts) -> None:
    """RM: it was relative to a folder that only this process knew."""
    stored = await artifacts.put(RUN, "the report é.html", pieces(b"mine"))
    assert stored.reference.startswith("file:///")
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OTHER_PROCESS, stored.reference, stdout=asyncio.subprocess.PIPE
    )
    found, _ = await other.communicate()
    assert found == b"mine"
    assert await read(artifacts, stored.reference) == b"mine"
    assert await read(artifacts, f"file:{RUN}/the report é.html") == b"mine", "an older reference"


async def test_a_folder_may_have_another_path_in_another_process(
    artifacts: LocalArtifacts, root: Path
) -> None:
    stored = await artifacts.put(RUN, "report.html", pieces(b"mine"))
    moved = root.with_name("elsewhere")
    await asyncio.to_thread(root.rename, moved)
    assert await read(LocalArtifacts(moved), stored.reference) == b"mine"
