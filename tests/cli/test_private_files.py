"""X12: what a process writes is its user's alone, sessions are signed by a secret that is not in
the database, and what a killed server left of uploads is removed by the next one.
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest

from outrider.api.upload_folder import PREFIX, UploadFolder, remove_left_overs
from outrider.domain.errors import InvalidInput
from outrider.domain.keys import KeyId
from outrider.domain.sessions import NONCE_BYTES, SECRET_BYTES, make_token
from outrider.files.artifact_store import LocalArtifacts
from outrider.files.event_spool import LocalSpool
from outrider.secrets.session import FILE_NAME, SessionSecret
from outrider.secrets.store import LocalSecrets
from outrider.stores.sqlite.store import SqliteStore
from outrider.system import SystemIds
from tests.support.api_server import campaign, running_server
from tests.support.eventually import eventually
from tests.support.raw_sql import raw_sql

PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.02


@pytest.fixture(autouse=True)
def open_handed() -> Iterator[None]:
    """A umask that would let everybody read everything."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def found(folder: Path, name: str) -> list[Path]:
    return sorted(folder.rglob(name))


def private(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


async def test_the_database_file_and_what_is_beside_it_are_their_owners_alone(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "outrider.db")
    await store.migrate()
    made = found(tmp_path, "outrider.db*")
    assert len(made) == 3, "the file, its log and its index"
    assert {mode(path) for path in made} == {0o600}
    await store.close()


async def test_spool_and_artifacts_are_their_owners_alone(tmp_path: Path) -> None:
    await LocalSpool(tmp_path / "spool", SystemIds()).put(b"{}")
    private(tmp_path / "spool")

    async def content() -> AsyncIterator[bytes]:
        yield b"x"

    await LocalArtifacts(tmp_path / "artifacts").put("run", "report.html", content())
    private(tmp_path / "artifacts")


def test_the_session_secret_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    made = SessionSecret(None, LocalSecrets(), folder).read()
    assert len(made) == SECRET_BYTES
    assert SessionSecret(None, LocalSecrets(), folder).read() == made
    private(folder)
    (folder / FILE_NAME).chmod(0o644)
    with pytest.raises(InvalidInput, match="other users can read"):
        SessionSecret(None, LocalSecrets(), folder).read()


def test_servers_with_the_same_session_secret_accept_each_others_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONS", "a secret of this test")
    given = tmp_path / "given"
    given.write_text("a secret of this test\n")
    one, two = (
        SessionSecret(reference, LocalSecrets(), tmp_path / "none").read()
        for reference in ("env:SESSIONS", f"file:{given}")
    )
    assert one == two
    assert not (tmp_path / "none").exists()
    monkeypatch.setenv("SESSIONS", "short")
    with pytest.raises(InvalidInput, match="fewer than 16"):
        SessionSecret("env:SESSIONS", LocalSecrets(), tmp_path).read()


async def test_anyone_who_reads_the_database_cannot_sign_a_session(
    database: str, tmp_path: Path
) -> None:
    """The key that signed them was there in the clear."""
    async with (
        running_server(tmp_path, database=database, workers=0) as server,
        raw_sql(database) as raw,
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as browser,
    ):
        url, here = f"{server.url}/session", {"Sec-Fetch-Site": "same-origin"}
        async with browser.post(url, json={"key": server.key}, headers=here) as signed_in:
            assert signed_in.status in (200, 201), await signed_in.text()
            token = signed_in.cookies["outrider_session"].value
        read = bytes(await raw.value("SELECT secret FROM signing_keys WHERE name = 'session'"))
        key_id = KeyId(str(await raw.value("SELECT id FROM api_keys")))
        soon = datetime.now(UTC) + timedelta(hours=1)
        forged = make_token(read, key_id, soon, bytes(NONCE_BYTES), None)
        for given, status in ((token, 200), (forged, 401)):
            async with browser.get(url, headers={"Cookie": f"outrider_session={given}"}) as answer:
                assert answer.status == status
    assert [mode(path) for path in found(tmp_path, FILE_NAME)] == [0o600]


def test_a_folder_held_by_a_running_server_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    living = UploadFolder()
    (living.path / "body").write_text("x")
    dead = tmp_path / f"{PREFIX}dead"
    dead.mkdir()
    (dead / "body").write_text("x")
    assert remove_left_overs() == 1
    assert list(tmp_path.iterdir()) == [living.path]
    living.close()
    assert not list(tmp_path.iterdir())


async def test_an_upload_left_by_a_killed_server_is_removed_by_the_next(
    tmp_path: Path,
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {"TMPDIR": str(temporary)}
    async with running_server(tmp_path, workers=0, environment=environment) as server:
        created = await server.post("/campaigns", campaign(1))
        path = f"/campaigns/{created['campaignId']}/audience"
        held = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            yield b"id,phone\n" + b"x" * 2_000_000
            await held.wait()

        upload = asyncio.create_task(
            server.request("POST", path, data=endless(), headers={"Content-Type": "text/csv"})
        )
        await eventually(lambda: found(temporary, "audience*"), seconds=PATIENCE_SECONDS)
        [folder] = found(temporary, f"{PREFIX}*")
        private(folder)
        await server.kill()
        upload.cancel()
        await asyncio.gather(upload, return_exceptions=True)
        assert folder.exists()
        await server.start()
        assert not folder.exists()


@pytest.mark.parametrize(
    ("before", "after"), [(0o644, 0o600), (0o664, 0o600), (0o666, 0o600), (0o660, 0o660)]
)
async def test_a_world_readable_database_file_is_restricted_to_its_owner(
    tmp_path: Path, before: int, after: int
) -> None:
    """X12: one of an earlier version stayed as it was. A group's access is a wish."""
    path = tmp_path / "outrider.db"
    first = SqliteStore(path)
    await first.migrate()
    for each in found(tmp_path, "outrider.db*"):
        each.chmod(before)
    # A second process's worth of connections, while the first still has its own.
    second = SqliteStore(path)
    await second.verify_schema()
    assert {mode(each) for each in found(tmp_path, "outrider.db*")} == {after}
    await second.close()
    await first.verify_schema()
    await first.close()
    assert {mode(each) for each in found(tmp_path, "outrider.db*")} == {after}


async def test_a_database_file_of_another_user_is_used_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X12: who may not change it is not kept from working."""
    path = tmp_path / "outrider.db"
    store = SqliteStore(path)
    await store.migrate()
    await store.close()
    path.chmod(0o644)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refused)
    again = SqliteStore(path)
    await again.verify_schema()
    await again.close()
    assert mode(path) == 0o644
