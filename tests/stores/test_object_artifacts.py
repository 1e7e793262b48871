"""Artifacts in object stores: in memory, and in S3 spoken over a socket."""

import asyncio
import hashlib
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from outrider.bootstrap import make_artifacts
from outrider.domain.artifacts import ArtifactRef
from outrider.domain.errors import InvalidInput, NotFound, StoreUnavailable
from outrider.files import object_artifacts
from outrider.files.artifact_store import LocalArtifacts
from outrider.files.object_artifacts import ObjectArtifacts
from outrider.limits.artifacts import ARTIFACT_PART_BYTES, ARTIFACT_PIECE_BYTES
from outrider.ports.artifacts import ArtifactStore
from outrider.settings import Settings
from tests.support.object_server import BUCKET, ObjectServer, serving_objects

RUN = "01a1e212-4aac-7faa-b47f-af878338aa53"
ROOT = f"s3://{BUCKET}/our/own"
LARGE_BYTES = 160 * 1024 * 1024
MEMORY_PARTS_MAX = 8
CHILD = """
import asyncio, resource, sys
from outrider.files.object_artifacts import ObjectArtifacts

PIECE = b"x" * 1024 * 1024

async def pieces(size):
    for _ in range(size // len(PIECE)):
        yield PIECE

def most_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

async def main(root, run, size):
    artifacts = ObjectArtifacts(root)
    await artifacts.put(run, "warm.bin", pieces(len(PIECE)))
    before = most_bytes()
    stored = await artifacts.put(run, "huge.bin", pieces(size))
    read = 0
    async for piece in artifacts.read(stored.reference):
        read += len(piece)
    assert read == stored.size_bytes
    print(read, most_bytes() - before)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


async def pieces(*content: bytes) -> AsyncIterator[bytes]:
    for piece in content:
        yield piece


async def read(artifacts: ArtifactStore, reference: str) -> bytes:
    return b"".join([piece async for piece in artifacts.read(reference)])


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with serving_objects() as made:
        yield made


@pytest.fixture(params=["memory", "s3"])
def artifacts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ObjectArtifacts:
    if request.param == "memory":
        return ObjectArtifacts("memory://here")
    server: ObjectServer = request.getfixturevalue("server")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return ObjectArtifacts(ROOT)


async def test_an_artifact_is_read_back_with_its_size_and_digest(
    artifacts: ObjectArtifacts,
) -> None:
    stored = await artifacts.put(RUN, "results é.csv", pieces(b"one,", b"", b"two"))
    assert stored.size_bytes == 7
    assert stored.sha256 == hashlib.sha256(b"one,two").hexdigest()
    assert stored.reference.endswith(f"/{RUN}/results é.csv")
    assert await read(artifacts, stored.reference) == b"one,two"
    ArtifactRef(stored.reference, "results", stored.sha256, stored.size_bytes)


async def test_an_empty_artifact_is_allowed(artifacts: ObjectArtifacts) -> None:
    stored = await artifacts.put(RUN, "empty.csv", pieces())
    assert stored.size_bytes == 0
    assert await read(artifacts, stored.reference) == b""


async def test_a_second_put_replaces_the_first(artifacts: ObjectArtifacts) -> None:
    first = await artifacts.put(RUN, "report.html", pieces(b"old"))
    second = await artifacts.put(RUN, "report.html", pieces(b"new"))
    assert second.reference == first.reference
    assert await read(artifacts, second.reference) == b"new"


async def test_a_large_artifact_goes_and_comes_in_parts(artifacts: ObjectArtifacts) -> None:
    content = [bytes([number]) * ARTIFACT_PIECE_BYTES for number in range(20)]
    assert len(content) * ARTIFACT_PIECE_BYTES > 2 * ARTIFACT_PART_BYTES
    stored = await artifacts.put(RUN, "large.bin", pieces(*content))
    sizes, digest = [], hashlib.sha256()
    async for piece in artifacts.read(stored.reference):
        sizes.append(len(piece))
        digest.update(piece)
    assert sum(sizes) == stored.size_bytes == len(content) * ARTIFACT_PIECE_BYTES
    assert digest.hexdigest() == stored.sha256


async def test_an_artifact_far_larger_than_its_parts_takes_little_memory(
    server: ObjectServer,
) -> None:
    """In a process of its own, because the server keeps all of it in this one."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, ROOT, RUN, str(LARGE_BYTES),
        env={**os.environ, **server.environment}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    told, _ = await child.communicate()
    assert child.returncode == 0
    size, grown = map(int, told.split())
    assert size == LARGE_BYTES
    assert grown < MEMORY_PARTS_MAX * ARTIFACT_PART_BYTES < LARGE_BYTES / 2


@pytest.mark.parametrize("existing", [False, True])
async def test_content_that_ends_in_an_error_leaves_nothing_of_itself(
    artifacts: ObjectArtifacts, existing: bool
) -> None:
    name = f"broken-{existing}.html"
    if existing:
        await artifacts.put(RUN, name, pieces(b"old"))

    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * (ARTIFACT_PART_BYTES + 1)
        raise RuntimeError("the store went away")

    with pytest.raises(RuntimeError, match="the store went away"):
        await artifacts.put(RUN, name, broken())
    root = (await artifacts.put(RUN, "other", pieces())).reference.removesuffix("other")
    if existing:
        assert await read(artifacts, root + name) == b"old"
    else:
        with pytest.raises(NotFound):
            await read(artifacts, root + name)


async def test_an_upload_that_was_cancelled_leaves_neither_an_object_nor_parts_of_it(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    artifacts = ObjectArtifacts(ROOT)
    reached = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"x" * (ARTIFACT_PART_BYTES + 1)
        reached.set()
        await asyncio.Event().wait()

    putting = asyncio.create_task(artifacts.put(RUN, "cancelled.bin", endless()))
    await reached.wait()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert "cancelled.bin" not in server.ask("GET", "")
    assert "cancelled.bin" not in server.ask("GET", "?uploads")


async def test_an_artifact_over_the_limit_is_refused_and_leaves_nothing(
    artifacts: ObjectArtifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_artifacts, "ARTIFACT_MAX_BYTES", 10)
    fits = await artifacts.put(RUN, "fits", pieces(b"0123456789"))
    with pytest.raises(InvalidInput, match="over 10 bytes"):
        await artifacts.put(RUN, "too-large", pieces(b"01234", b"567890"))
    with pytest.raises(NotFound):
        await read(artifacts, fits.reference.replace("fits", "too-large"))


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc/passwd", "a\0b", "a?b", "a#"])
async def test_a_name_that_is_not_one_is_refused(artifacts: ObjectArtifacts, name: str) -> None:
    with pytest.raises(InvalidInput):
        await artifacts.put(RUN, name, pieces(b"mine"))
    with pytest.raises(InvalidInput):
        await artifacts.put(name, "report.html", pieces(b"mine"))


@pytest.mark.parametrize(
    "reference",
    [
        "", "file:x/y", f"s3://{BUCKET}/our/own", f"s3://{BUCKET}/our/own/a/../b",
        f"s3://{BUCKET}/their/own/a/b", f"s3://elsewhere/our/own/{RUN}/x", f"{ROOT}/a/b/c",
        f"{ROOT}/a/b?versionId=1", f"s3://{BUCKET}/our/own-not/a", "memory://here/nobody/knows",
        f"s3://{BUCKET}/our/own/nobody/knows",
    ],
)  # fmt: skip
async def test_a_reference_that_leads_elsewhere_finds_nothing(
    artifacts: ObjectArtifacts, reference: str
) -> None:
    with pytest.raises(NotFound):
        await read(artifacts, reference)


async def test_a_bucket_that_is_not_there_is_a_store_that_is_unavailable(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    artifacts = ObjectArtifacts("s3://nobodys-bucket")
    with pytest.raises(StoreUnavailable) as refused:
        await artifacts.put(RUN, "x", pieces(b"x"))
    assert "planted" not in f"{refused.value} {refused.value.hint}"


async def test_a_server_that_is_down_is_an_unavailable_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving_objects() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        artifacts = ObjectArtifacts(ROOT)
        stored = await artifacts.put(RUN, "x", pieces(b"x"))
    with pytest.raises(StoreUnavailable):
        await read(artifacts, stored.reference)


def test_the_setting_is_a_folder_or_the_url_of_an_object_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(make_artifacts(Settings(artifacts=tmp_path).artifacts), LocalArtifacts)
    monkeypatch.setenv("OUTRIDER_ARTIFACTS", "s3://bucket/prefix")
    assert isinstance(make_artifacts(Settings().artifacts), ObjectArtifacts)
    monkeypatch.setenv("OUTRIDER_ARTIFACTS", "some/folder")
    assert isinstance(make_artifacts(Settings().artifacts), LocalArtifacts)
    handed_on = Settings().as_environment()["OUTRIDER_ARTIFACTS"]
    assert handed_on == os.environ["OUTRIDER_ARTIFACTS"]


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/x", "https://bucket.s3.test/x", "s3://", "s3:///x", "s3://key:hunter2@bucket/x",
        "s3://bucket/x?X-Amz-Signature=hunter2", "gs://bucket#hunter2",
    ],
)  # fmt: skip
def test_a_place_that_is_none_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make_artifacts(url)
    assert "hunter2" not in f"{refused.value} {refused.value.hint}"


def test_a_missing_account_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(InvalidInput, match="Account must be specified"):
        make_artifacts("az://container/x")


def test_without_the_package_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(InvalidInput) as refused:
        ObjectArtifacts("s3://bucket")
    assert refused.value.hint == 'pip install "outrider[objects]"'
