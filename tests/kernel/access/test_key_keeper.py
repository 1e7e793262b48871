"""Keys on both stores: shown once, checked at equal cost, revoked at once, never written down."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from outrider.bootstrap import make_store
from outrider.domain.errors import InvalidInput, NotFound, StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE, Scope
from outrider.domain.keys import KeyId, KeyScope, Principal, is_secret, key_text
from outrider.kernel.access import key_keeper as module
from outrider.kernel.access.key_keeper import KeyKeeper
from outrider.kernel.transactions.paging import FIRST
from outrider.limits.access import KEY_REMEMBER_SECONDS
from outrider.limits.campaigns import NAME_MAX_CHARACTERS
from outrider.ports.store import Result, Store, Transaction
from outrider.settings import Settings
from outrider.telemetry import configure_logging
from outrider.testing.clock import FakeClock
from tests.support.foundations import foundation
from tests.support.raw_sql import Raw, raw_sql

PLANTED = bytes.fromhex("c0ffee" * 10 + "beef")
ROOT_KEY = "a root key, planted"
OPERATE = {KeyScope.OPERATE}
MOST = 100
UNKNOWN = KeyId("00000000-0000-7000-8000-0000000000ff")


class CountingStore:
    """The store, and how often it was read; a test may act after a read, or lose an answer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads = 0
        self.after_read: Callable[[], Any] | None = None
        self.lose_answers = False

    async def read(self, transaction: Transaction[Result]) -> Result:
        self.reads += 1
        result = await self._store.read(transaction)
        if self.after_read is not None:
            await self.after_read()
        return result

    async def write(self, transaction: Transaction[Result]) -> Result:
        result = await self._store.write(transaction)
        if self.lose_answers:
            raise StoreUnavailable("gone")
        return result


class Desk:
    """A keeper on a counted store, with a clock to move."""

    def __init__(self, store: Store, clock: FakeClock, root_key: str | None = None) -> None:
        self.store = CountingStore(store)
        self.clock = clock
        self.keeper = KeyKeeper(
            foundation(cast("Store", self.store), clock=clock), os.urandom, root_key
        )

    async def key(
        self, name: str = "ci", *scopes: KeyScope, scope: Scope = DEFAULT_SCOPE
    ) -> tuple[KeyId, str]:
        record, text = await self.keeper.create(scope, name, scopes or OPERATE, "test")
        return record.id, text


@pytest.fixture
def desk(store: Store) -> Desk:
    return Desk(store, FakeClock())


@pytest.fixture
async def elsewhere(database: str, store: Store, desk: Desk) -> AsyncIterator[Desk]:
    """Another process on the same, migrated database."""
    del store
    other = make_store(database)
    yield Desk(other, desk.clock)
    await other.close()


async def audit(raw: Raw) -> list[tuple[Any, ...]]:
    return await raw.run("SELECT event, actor FROM campaign_audit_log ORDER BY id")


async def everything(raw: Raw) -> bytes:
    """Every value of every table."""
    rows = [row for table in await raw.tables() for row in await raw.run(f"SELECT * FROM {table}")]
    values = [value for row in rows for value in row]
    return b"\n".join(
        value if isinstance(value, bytes) else str(value).encode() for value in values
    )


def files_of_database(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.glob("outrider.db*")]


async def test_a_key_identifies_the_client_it_was_created_for(desk: Desk) -> None:
    record, text = await desk.keeper.create(
        DEFAULT_SCOPE, "ci", [KeyScope.READ, KeyScope.ADMIN], "test"
    )
    assert (record.name, record.created_at, record.revoked_at) == ("ci", desk.clock.now(), None)
    granted = frozenset({KeyScope.READ, KeyScope.ADMIN})
    assert await desk.keeper.authenticate(text) == Principal(
        DEFAULT_SCOPE, record.id, "ci", granted
    )
    assert await desk.keeper.list(DEFAULT_SCOPE, FIRST, MOST) == [record]


async def test_a_wrong_secret_and_an_unknown_id_are_refused_alike_at_the_same_cost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_id, text = await desk.key()
    revoked_id, revoked = await desk.key("old")
    await desk.keeper.revoke(DEFAULT_SCOPE, revoked_id, "test")
    assert await desk.keeper.authenticate(text)
    checks: list[int] = []

    def counted(secret: bytes, salt: bytes, digest: bytes) -> bool:
        checks.append(len(secret) + len(salt) + len(digest))
        return is_secret(secret, salt, digest)

    monkeypatch.setattr(module, "is_secret", counted)
    wrong = os.urandom(32)
    costs = []
    for presented in (key_text(key_id, wrong), key_text(UNKNOWN, wrong), revoked):
        for _ in range(2):
            checks.clear()
            reads = desk.store.reads
            assert await desk.keeper.authenticate(presented) is None
            costs.append((desk.store.reads - reads, tuple(checks)))
    assert set(costs) == {(1, (80,))}


@pytest.mark.parametrize("text", ["", "outrider_", "Bearer x", "\ud800", "x" * 100_000, "\x00"])
async def test_a_malformed_key_is_refused_without_a_database_read(desk: Desk, text: str) -> None:
    assert await desk.keeper.authenticate(text) is None
    assert desk.store.reads == 0


async def test_a_good_key_is_remembered_for_a_few_seconds(desk: Desk) -> None:
    _, text = await desk.key()
    for _ in range(10):
        assert await desk.keeper.authenticate(text)
    assert desk.store.reads == 1
    desk.clock.advance(KEY_REMEMBER_SECONDS)
    assert await desk.keeper.authenticate(text)
    assert desk.store.reads == 2


async def test_only_so_many_keys_are_remembered(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEYS_REMEMBERED", 2)
    desk = Desk(store, FakeClock())
    texts = [(await desk.key(f"key-{number}"))[1] for number in range(3)]
    for text in texts:
        assert await desk.keeper.authenticate(text)
    assert await desk.keeper.authenticate(texts[2])
    assert desk.store.reads == 3
    assert await desk.keeper.authenticate(texts[0])
    assert desk.store.reads == 4


async def test_a_revoked_key_is_refused_at_once_here_and_soon_elsewhere(
    desk: Desk, elsewhere: Desk
) -> None:
    key_id, text = await desk.key()
    _, other = await desk.key("other")
    for place in (desk, elsewhere):
        assert await place.keeper.authenticate(text)
        assert await place.keeper.authenticate(other)
    revoked = await desk.keeper.revoke(DEFAULT_SCOPE, key_id, "test")
    assert revoked.revoked_at == desk.clock.now()
    assert await desk.keeper.authenticate(text) is None
    desk.clock.advance(KEY_REMEMBER_SECONDS)
    assert await elsewhere.keeper.authenticate(text) is None
    assert await desk.keeper.authenticate(other)


async def test_a_key_that_is_revoked_while_it_is_looked_up_is_not_remembered(desk: Desk) -> None:
    key_id, text = await desk.key()

    async def revoke() -> None:
        desk.store.after_read = None
        await desk.keeper.revoke(DEFAULT_SCOPE, key_id, "test")

    desk.store.after_read = revoke
    await desk.keeper.authenticate(text)
    assert await desk.keeper.authenticate(text) is None


async def test_a_revocation_whose_answer_was_lost_holds_here_too(desk: Desk) -> None:
    key_id, text = await desk.key()
    assert await desk.keeper.authenticate(text)
    desk.store.lose_answers = True
    with pytest.raises(StoreUnavailable):
        await desk.keeper.revoke(DEFAULT_SCOPE, key_id, "test")
    assert await desk.keeper.authenticate(text) is None


async def test_revoking_twice_changes_and_records_nothing_the_second_time(
    desk: Desk, database: str
) -> None:
    key_id, _ = await desk.key()
    first = await desk.keeper.revoke(DEFAULT_SCOPE, key_id, "ada")
    desk.clock.advance(60)
    assert await desk.keeper.revoke(DEFAULT_SCOPE, key_id, "grace") == first
    async with raw_sql(database) as raw:
        assert await audit(raw) == [("key.created", "test"), ("key.revoked", "ada")]


async def test_the_keys_of_another_workspace_are_not_listed(desk: Desk) -> None:
    there = await desk.keeper.open_workspace("acme", "shop", "production")
    theirs, text = await desk.key(scope=there)
    ours, _ = await desk.key()
    principal = await desk.keeper.authenticate(text)
    assert principal is not None
    assert principal.scope == there
    assert [key.id for key in await desk.keeper.list(there, FIRST, MOST)] == [theirs]
    assert [key.id for key in await desk.keeper.list(DEFAULT_SCOPE, FIRST, MOST)] == [ours]
    for missing in (theirs, UNKNOWN, KeyId("nonsense")):
        with pytest.raises(NotFound):
            await desk.keeper.revoke(DEFAULT_SCOPE, missing, "test")
    assert await desk.keeper.authenticate(text)


async def test_keys_are_listed_in_pages(desk: Desk) -> None:
    made = [(await desk.key(f"key-{number}"))[0] for number in range(5)]
    seen: list[str] = []
    after: str = FIRST
    while page := await desk.keeper.list(DEFAULT_SCOPE, after, 2):
        assert len(page) <= 2
        seen += [key.id for key in page]
        after = seen[-1]
    assert seen == sorted(made)
    with pytest.raises(InvalidInput):
        await desk.keeper.list(DEFAULT_SCOPE, "nonsense", 2)


@pytest.mark.parametrize(
    ("name", "scopes", "path"),
    [
        ("", OPERATE, "name"),
        ("  ", OPERATE, "name"),
        ("x" * (NAME_MAX_CHARACTERS + 1), OPERATE, "name"),
        ("two\nlines", OPERATE, "name"),
        ("nul\x00", OPERATE, "name"),
        ("\ud800", OPERATE, "name"),
        ("root", OPERATE, "name"),
        ("ci", set(), "scopes"),
    ],
)
async def test_a_key_without_a_proper_name_or_scope_is_not_made(
    desk: Desk, name: str, scopes: set[KeyScope], path: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await desk.keeper.create(DEFAULT_SCOPE, name, scopes, "test")
    assert [problem.path for problem in refused.value.problems] == [path]
    assert await desk.keeper.list(DEFAULT_SCOPE, FIRST, MOST) == []


async def test_the_root_key_is_admin_of_the_default_workspace(store: Store) -> None:
    desk = Desk(store, FakeClock(), ROOT_KEY)
    root = await desk.keeper.authenticate(ROOT_KEY)
    assert root is not None
    assert (root.scope, root.actor) == (DEFAULT_SCOPE, "key:root")
    assert root.allows(KeyScope.ADMIN)
    assert await desk.keeper.authenticate(ROOT_KEY + "x") is None
    assert await desk.keeper.authenticate(ROOT_KEY[:-1]) is None
    assert desk.store.reads == 0
    _, text = await desk.key()
    assert await desk.keeper.authenticate(text)


async def test_a_short_root_key_is_refused_without_being_repeated(store: Store) -> None:
    with pytest.raises(InvalidInput) as refused:
        Desk(store, FakeClock(), "hunter2")
    assert "hunter2" not in str(refused.value)


async def test_the_first_key_is_made_once_and_opens_everything(desk: Desk, database: str) -> None:
    text = await desk.keeper.ensure_first_key("server")
    assert text is not None
    first = await desk.keeper.authenticate(text)
    assert first is not None
    assert (first.name, first.scope) == ("first", DEFAULT_SCOPE)
    assert first.allows(KeyScope.ADMIN)
    assert await desk.keeper.ensure_first_key("server") is None
    await desk.keeper.revoke(DEFAULT_SCOPE, first.key_id, "ada")
    assert await desk.keeper.ensure_first_key("server") is not None
    async with raw_sql(database) as raw:
        events = [event for event, _ in await audit(raw)]
    assert sorted(events) == ["key.created", "key.created", "key.revoked"]


async def test_servers_that_start_at_once_make_one_first_key(desk: Desk, elsewhere: Desk) -> None:
    keepers = [desk.keeper, elsewhere.keeper] * 5
    made = await asyncio.gather(*(keeper.ensure_first_key("server") for keeper in keepers))
    assert len([text for text in made if text]) == 1
    assert len(await desk.keeper.list(DEFAULT_SCOPE, FIRST, MOST)) == 1


async def test_with_a_root_key_or_another_key_no_first_key_is_created(store: Store) -> None:
    assert await Desk(store, FakeClock(), ROOT_KEY).keeper.ensure_first_key("server") is None
    desk = Desk(store, FakeClock())
    await desk.key()
    assert await desk.keeper.ensure_first_key("server") is None


async def test_a_key_of_another_workspace_does_not_count_as_the_first_key(desk: Desk) -> None:
    there = await desk.keeper.open_workspace("acme", "shop", "production")
    await desk.key(scope=there)
    assert await desk.keeper.ensure_first_key("server") is not None


async def test_a_workspace_is_made_once_and_found_by_its_name(desk: Desk, elsewhere: Desk) -> None:
    with pytest.raises(NotFound, match="acme/shop/production"):
        await desk.keeper.find_workspace("acme", "shop", "production")
    keepers = [desk.keeper, elsewhere.keeper] * 5
    opened = await asyncio.gather(
        *(keeper.open_workspace("acme", "shop", "production") for keeper in keepers)
    )
    assert len(set(opened)) == 1
    assert await desk.keeper.find_workspace("acme", "shop", "production") == opened[0]
    staging = await desk.keeper.open_workspace("acme", "shop", "staging")
    assert staging.tenant_id == opened[0].tenant_id
    assert staging.workspace_id != opened[0].workspace_id
    assert (await desk.keeper.open_workspace("other", "shop", "staging")).tenant_id not in {
        scope.tenant_id for scope in opened
    }


async def test_the_default_workspace_is_found_by_its_name_too(desk: Desk) -> None:
    assert await desk.keeper.open_workspace("default", "default", "default") == DEFAULT_SCOPE


async def test_a_name_that_two_tenants_have_means_the_oldest(desk: Desk, database: str) -> None:
    oldest = await desk.keeper.open_workspace("acme", "shop", "production")
    async with raw_sql(database) as raw:
        await raw.run(
            f"INSERT INTO tenants VALUES ('{FIRST}', 'acme', '2026-06-01T00:00:00.000000Z')"
        )
    assert await desk.keeper.open_workspace("acme", "shop", "production") == oldest


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "x" * (NAME_MAX_CHARACTERS + 1)])
async def test_a_name_that_cannot_be_written_as_a_path_names_no_workspace(
    desk: Desk, name: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await desk.keeper.open_workspace("acme", name, "production")
    assert [problem.path for problem in refused.value.problems] == ["project"]


async def test_a_planted_key_is_in_no_table_file_log_or_audit_entry(
    store: Store,
    database: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    configure_logging("json", logging.DEBUG)
    keeper = KeyKeeper(
        foundation(store, clock=FakeClock()), lambda count: PLANTED[:count], ROOT_KEY
    )
    record, text = await keeper.create(DEFAULT_SCOPE, "ci", OPERATE, "test")
    assert PLANTED.hex() in text
    assert await keeper.authenticate(text)
    assert await keeper.authenticate(text[:-1] + "0") is None
    assert await keeper.authenticate(ROOT_KEY)
    await keeper.revoke(DEFAULT_SCOPE, record.id, "test")
    async with raw_sql(database) as raw:
        stored = await everything(raw)
    assert record.id.encode() in stored
    captured = capfd.readouterr()
    logged = [entry.getMessage() for entry in caplog.records]
    seen = [stored, captured.out.encode(), captured.err.encode(), repr(record).encode()]
    seen += [line.encode() for line in logged]
    seen += files_of_database(tmp_path)
    for form in (PLANTED, PLANTED.hex().encode(), ROOT_KEY.encode()):
        assert not [place for place in seen if form in place]


def test_settings_never_show_the_root_key_and_pass_it_on_only_if_set() -> None:
    given = Settings(root_key=ROOT_KEY)
    assert ROOT_KEY not in repr(given)
    assert ROOT_KEY not in str(given)
    assert given.as_environment()["OUTRIDER_ROOT_KEY"] == ROOT_KEY
    assert "OUTRIDER_ROOT_KEY" not in Settings().as_environment()
