"""Several servers on one database: a registry that one of them is given is in force on all."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.errors import InvalidInput, StoreError
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.limits.api import ApiLimits
from outrider.limits.kernel import Limits
from outrider.settings import Settings
from outrider.testing.launches import registry, target
from tests.support.api_inside import Inside, serving
from tests.support.eventually import eventually
from tests.support.raw_sql import raw_sql

OLD = registry(target("old", "noop", "noop:"))
NEW = registry(
    target("new", "noop", "noop:"),
    target("once", "noop", "noop:", policy="one_shot"),
    target("soon", "noop", "noop:", policy="deadline", maxAcceptanceSeconds=30),
)
QUICK = Limits(registry_look_seconds=0.05)
JSON = {"Content-Type": "application/json"}


def _written(folder: Path, raw: bytes | None) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "registry.json"
    if raw is not None:
        path.write_bytes(raw)
    return path


@asynccontextmanager
async def server(database: str, folder: Path, raw: bytes | None = OLD) -> AsyncIterator[Outrider]:
    """One with a disk of its own."""
    path = _written(folder, raw)
    settings = Settings(database_url=database, registry=path, spool=folder / "spool")
    async with open_outrider(settings, limits=QUICK) as outrider:
        await outrider.store.migrate()
        yield outrider


async def put(inside: Inside, raw: bytes) -> Any:
    url, headers = f"{inside.url}/registry", {**inside.headers, **JSON}
    async with inside.session.put(url, data=raw, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def shown(inside: Inside, key: str) -> Any:
    headers = {"Authorization": f"Bearer {key}"}
    async with inside.session.get(f"{inside.url}/registry", headers=headers) as answer:
        assert answer.status == 200
        return await answer.json()


async def until(reached: Callable[[], bool]) -> None:
    await eventually(reached, seconds=60)


async def test_two_servers_agree_after_a_registry_was_put_to_one_of_them(
    database: str, tmp_path: Path
) -> None:
    """M3: whoever asks the other sees it at once, and within a look it is in force there."""
    async with server(database, tmp_path / "a") as one, server(database, tmp_path / "b") as other:
        assert set(other.registry_keeper.contracts()) == {"old"}
        async with serving(one, ApiLimits()) as first:
            await put(first, NEW)
            following = asyncio.create_task(other.registry_follower.run())
            await until(lambda: set(other.registry_keeper.contracts()) == {"new", "once", "soon"})
            following.cancel()
            assert other.settings.registry.read_bytes() == NEW
            async with raw_sql(database) as raw:
                await raw.run("DELETE FROM api_keys")
            async with serving(other, ApiLimits()) as second:
                answers = [await shown(each, second.key) for each in (first, second)]
        assert answers[0] == answers[1]


async def test_a_registry_as_shown_can_be_put_back(database: str, tmp_path: Path) -> None:
    """M4: with terms that a policy has not, and with how the targets fare."""
    async with server(database, tmp_path / "a", NEW) as one, serving(one, ApiLimits()) as inside:
        before, contracts = await shown(inside, inside.key), dict(one.registry_keeper.contracts())
        url, headers = f"{inside.url}/registry", {**inside.headers, **JSON}
        async with inside.session.get(url, headers=headers) as answer:
            raw = await answer.read()
        assert await put(inside, raw) == before
        assert dict(one.registry_keeper.contracts()) == contracts
        assert set(one.registry_keeper.contracts()) == {"new", "once", "soon"}


async def test_a_server_that_was_away_takes_over_what_it_missed(
    database: str, tmp_path: Path
) -> None:
    """M3: its file is one that was replaced meanwhile, or it has none at all."""
    async with server(database, tmp_path / "a") as one:
        await one.registry_follower.replace(DEFAULT_SCOPE, NEW, "test")
    for name, raw in (("b", OLD), ("c", None)):
        async with server(database, tmp_path / name, raw) as other:
            await other.registry_follower.refresh()
            assert set(other.registry_keeper.contracts()) == {"new", "once", "soon"}


async def test_a_file_edited_by_hand_is_kept_until_the_next_replacement(
    database: str, tmp_path: Path
) -> None:
    """M3: nobody loses an edit to what was in force before it."""
    edited = registry(target("edited", "noop", "noop:"))
    async with server(database, tmp_path / "a") as one:
        await one.registry_follower.replace(DEFAULT_SCOPE, NEW, "test")
        async with server(database, tmp_path / "b", edited) as other:
            await other.registry_follower.refresh()
            assert set(other.registry_keeper.contracts()) == {"edited"}
            await one.registry_follower.replace(DEFAULT_SCOPE, OLD, "test")
            await other.registry_follower.refresh()
            assert set(other.registry_keeper.contracts()) == {"old"}


async def test_a_replacement_that_cannot_be_announced_is_in_force_nowhere(
    database: str, tmp_path: Path
) -> None:
    """M3: two servers that disagree are worse than one that says no."""
    async with server(database, tmp_path / "a") as one:
        with pytest.raises(InvalidInput):
            await one.registry_follower.replace(DEFAULT_SCOPE, b'{"targets": 1}', "test")

        async with raw_sql(database) as raw:
            await raw.run("ALTER TABLE registry_revisions RENAME TO elsewhere")
        with pytest.raises(StoreError):
            await one.registry_follower.replace(DEFAULT_SCOPE, NEW, "test")
        assert set(one.registry_keeper.contracts()) == {"old"}
        assert one.settings.registry.read_bytes() == OLD
