"""The seal verifier: an edit of any column, a removed and an inserted row are named."""

from pathlib import Path

import pytest

from outrider.ports.store import Store
from tests.support.raw_sql import Raw
from tests.support.seal_scene import SealScene
from tests.support.tampering import tampering

KEYS = {"id", "run_id"}
"""A row with another id, or of another run, is another row."""


@pytest.fixture
def scene(store: Store, database: str, tmp_path: Path) -> SealScene:
    return SealScene(store, database, tmp_path / "keys")


async def columns(raw: Raw, table: str, database: str) -> dict[str, str]:
    """With their types."""
    if database.startswith("sqlite"):
        rows = await raw.run(f"SELECT name, type FROM pragma_table_info('{table}')")
    else:
        rows = await raw.run(
            "SELECT column_name::text, data_type::text FROM information_schema.columns"
            f" WHERE table_name = '{table}'"
        )
    return dict(rows)


def other(column: str, kind: str, database: str) -> str:
    """An expression for another value than any the column has."""
    kind = kind.lower()
    if column.endswith("_at"):
        return "'2001-01-01T00:00:00.000000Z'"
    if kind == "uuid" or (column.endswith("_id") and kind == "text" and column in UUIDS):
        return "'01890000-0000-7000-8000-000000000001'"
    if kind == "boolean":
        return f"NOT {column}"
    if kind in ("integer", "bigint"):
        if column in FLAGS and database.startswith("sqlite"):
            return f"1 - {column}"
        return f"coalesce({column}, 0) + 7"
    if kind in ("bytea", "blob"):
        digits = "ab" * 32
        return f"x'{digits}'" if database.startswith("sqlite") else f"'\\x{digits}'::bytea"
    if kind == "json":
        return "'{\"other\": 1}'"
    return ALLOWED.get(column, "'other'")


UUIDS = {"asset_id", "job_id", "tenant_id", "workspace_id"}
FLAGS = {"skipped", "maybe_received", "transactional", "urgent"}
ALLOWED = {
    "origin": "'intent'",
    "status": "'called'",
    "intent_status": "CASE intent_status WHEN 'REJECTED' THEN 'ACCEPTED' ELSE 'REJECTED' END",
    "exhausted_reason": "'one_shot'",
    "progress": "'SENT_NO_ANSWER'",
    "event": "'read'",
    "keyword": "'stop'",
    "matched_by": "'person'",
}


async def edited(raw: Raw, table: str, column: str, value: str, id_: str) -> None:
    """Also where a constraint would refuse it, as far as there is a way around it."""
    if type(raw).__name__ == "RawSqlite":
        await raw.run("PRAGMA ignore_check_constraints = on")
    await raw.run(f"UPDATE {table} SET {column} = {value} WHERE id = '{id_}'")


async def test_every_column_of_a_ledger_row_is_sealed(scene: SealScene, database: str) -> None:
    _, items = await scene.sealed()
    async with tampering(database) as raw:
        found = await columns(raw, "channel_outbox", database)
        if not database.startswith("sqlite"):
            for (name,) in await raw.run(
                "SELECT conname::text FROM pg_constraint WHERE contype = 'c'"
                " AND conrelid = 'channel_outbox'::regclass"
            ):
                await raw.run(f"ALTER TABLE channel_outbox DROP CONSTRAINT {name}")
        unseen = []
        for column, kind in found.items():
            if column in KEYS:
                continue
            await raw.run("DROP TABLE IF EXISTS kept")
            await raw.run(
                f"CREATE TABLE kept AS SELECT {column} FROM channel_outbox WHERE id = '{items[1]}'"
            )
            await edited(raw, "channel_outbox", column, other(column, kind, database), items[1])
            if ("ledger_row", "edited", items[1]) not in await scene.findings():
                unseen.append(column)
            await raw.run(
                f"UPDATE channel_outbox SET {column} = (SELECT {column} FROM kept)"
                f" WHERE id = '{items[1]}'"
            )
        await raw.run("DROP TABLE kept")
    assert unseen == []
    assert await scene.findings() == []


async def test_a_removed_and_an_inserted_ledger_row_are_named(
    scene: SealScene, database: str
) -> None:
    _, items = await scene.sealed()
    forged = str(scene.foundation.ids.new())
    async with tampering(database) as raw:
        await raw.run(f"DELETE FROM channel_outbox WHERE id = '{items[0]}'")
        names = [
            name
            for name in await columns(raw, "channel_outbox", database)
            if name not in ("id", "idempotency_key")
        ]
        listed = ", ".join(names)
        await raw.run(
            f"INSERT INTO channel_outbox (id, idempotency_key, {listed})"
            f" SELECT '{forged}', {raw.blob(bytes(32))}, {listed} FROM channel_outbox"
            f" WHERE id = '{items[1]}'"
        )
    assert sorted(await scene.findings()) == [
        ("ledger_row", "inserted", forged),
        ("ledger_row", "removed", items[0]),
    ]


async def test_an_inserted_attempt_is_named_by_its_item(scene: SealScene, database: str) -> None:
    _, items = await scene.sealed()
    async with tampering(database) as raw:
        await raw.run(
            "INSERT INTO attempt_history (outbox_id, attempt, repeat, fence, opened_at, closed_at,"
            " progress, outcome) SELECT id, 0, 0, 1, created_at, created_at, 'ANSWERED',"
            f" 'rejected' FROM channel_outbox WHERE id = '{items[2]}'"
        )
    assert await scene.findings() == [("ledger_row", "edited", items[2])]


async def test_edited_and_removed_receipts_are_named_and_later_ones_are_counted(
    scene: SealScene, database: str
) -> None:
    _, items = await scene.ended()
    await scene.reported(items[0])
    await scene.reported(items[1])
    assert await scene.sealer.seal_due() == 1
    await scene.reported(items[2])
    found = await scene.verified()
    assert found.receipts_since == 1
    assert await scene.findings() == []
    async with tampering(database) as raw:
        rows = await raw.run("SELECT id FROM item_receipts ORDER BY outbox_id")
        first, second, _ = (str(row[0]) for row in rows)
        await raw.run(f"UPDATE receipts SET reason = 'other' WHERE id = '{first}'")
        await raw.run(f"DELETE FROM item_receipts WHERE id = '{second}'")
    assert sorted(await scene.findings()) == sorted(
        [("receipt", "edited", first), ("receipt", "removed", second)]
    )


async def test_an_edited_seal_a_false_signature_and_edited_leaves_are_named(
    scene: SealScene, database: str
) -> None:
    run_id, _ = await scene.sealed()
    (stored,) = await scene.seals(run_id)
    changes = {
        "document": f"'{stored.document.replace('outrider', 'someone')}'",
        "signature": f"{bytes(64).hex()}",
    }
    for column, value in changes.items():
        async with tampering(database) as raw:
            wanted = raw.blob(bytes.fromhex(value)) if column == "signature" else value
            await raw.run(f"UPDATE run_seals SET {column} = {wanted}")
        assert ("seal", "edited", "1") in await scene.findings()
        async with tampering(database) as raw:
            original = getattr(stored, column)
            back = f"'{original}'" if column == "document" else raw.blob(bytes(original))
            await raw.run(f"UPDATE run_seals SET {column} = {back}")
        assert await scene.findings() == []
    async with tampering(database) as raw:
        await raw.run(f"UPDATE sealed_pages SET leaves = {raw.blob(bytes(49))}")
    assert await scene.findings() == [("seal", "edited", "1")]


async def test_who_removes_a_seal_to_have_changed_rows_sealed_anew_is_found(
    scene: SealScene, database: str
) -> None:
    _, items = await scene.sealed()
    async with tampering(database) as raw:
        await raw.run(f"UPDATE channel_outbox SET provider = 'other' WHERE id = '{items[1]}'")
        await raw.run("DELETE FROM run_seals")
        await raw.run("DELETE FROM sealed_pages")
        await raw.run("UPDATE campaign_runs SET sealed_seq = 0")
    assert await scene.findings() == [("seal", "removed", "1")]
    assert await scene.sealer.seal_due() == 1
    assert await scene.findings() == [("seal", "edited", "1")]


async def test_a_chain_of_events_that_was_rewritten_with_its_head_is_found_by_the_seal(
    scene: SealScene, database: str
) -> None:
    await scene.sealed()
    forged = bytes(range(32))
    async with tampering(database) as raw:
        await raw.run(
            f"UPDATE run_events SET chain_hash = {raw.blob(forged)}"
            " WHERE run_seq = (SELECT max(run_seq) FROM run_events)"
        )
    found = await scene.verified()
    assert "head" in [each.how for each in found.findings if each.what == "run_event"]
