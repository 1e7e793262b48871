"""The database verifier: what a superuser edits, removes or inserts is named, on both stores."""

import asyncio
import contextlib
from collections.abc import Sequence

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.run_events import RunEventType
from outrider.kernel.proof.database_verifier import Proven, Verification
from outrider.kernel.transactions import audit, chains, run_log
from outrider.kernel.transactions.audit import AuditEntry
from outrider.ports.event_log import EventDraft
from tests.support.noop_launches import noop_launch
from tests.support.tampering import tampering
from tests.support.whole_runs import work_until_terminal

EVENTS_OF_A_RUN = 5


async def ended(outrider: Outrider) -> RunId:
    run_id = await noop_launch(outrider)
    await work_until_terminal(outrider, run_id)
    await outrider.audit_chainer.chain()
    return run_id


async def verified(outrider: Outrider) -> Verification:
    return await outrider.database_verifier.verify()


async def last_seq(outrider: Outrider, run_id: RunId) -> int:
    found = await outrider.store.read(chains.run(run_id))
    assert found is not None
    return found.last_seq


async def findings(outrider: Outrider) -> list[tuple[str, str, str]]:
    return [(each.what, each.how, each.which) for each in (await verified(outrider)).findings]


async def changed(database: str, *statements: str) -> None:
    async with tampering(database) as raw:
        for statement in statements:
            await raw.run(statement)


async def test_what_nobody_touched_holds(noop_outrider: Outrider) -> None:
    await ended(noop_outrider)
    found = await verified(noop_outrider)
    assert found.findings == []
    assert found.holds
    assert found.checked[Proven.RUN_EVENT] >= EVENTS_OF_A_RUN
    assert found.checked[Proven.AUDIT_ENTRY] > 0
    assert (found.before_chain, found.waiting) == (0, 0)


@pytest.mark.parametrize(
    "edit",
    [
        "payload = '{}'",
        "type = 'StepFailed'",
        "occurred_at = '2020-01-01T00:00:00.000000Z'",
        "step_id = NULL",
        "logical_attempt = 2",
        "engine_attempt = 9",
        "emitter = 'hand'",
        "plan_version = '9'",
        "contract_version = '9'",
        "signal_id = 'x'",
    ],
)
async def test_an_edited_run_event_is_named(
    noop_outrider: Outrider, database: str, edit: str
) -> None:
    await ended(noop_outrider)
    await changed(database, f"UPDATE run_events SET {edit} WHERE run_seq = 3")
    assert await findings(noop_outrider) == [("run_event", "edited", "3")]


async def test_removed_run_events_are_named_at_the_beginning_in_between_and_at_the_end(
    noop_outrider: Outrider, database: str
) -> None:
    for sequences, named in (((3,), "3"), ((1, 2), "1-2")):
        run_id = await ended(noop_outrider)
        listed = ", ".join(map(str, sequences))
        await changed(
            database,
            f"DELETE FROM run_events WHERE run_id = '{run_id}' AND run_seq IN ({listed})",
        )
        assert (await findings(noop_outrider))[-1] == ("run_event", "removed", named)
    run_id = await ended(noop_outrider)
    last = await last_seq(noop_outrider, run_id)
    await changed(
        database, f"DELETE FROM run_events WHERE run_id = '{run_id}' AND run_seq = {last}"
    )
    assert (await findings(noop_outrider))[-1] == ("run_event", "removed", str(last))


async def test_a_removed_end_is_found_although_the_runs_counter_was_set_back(
    noop_outrider: Outrider, database: str
) -> None:
    run_id = await ended(noop_outrider)
    last = await last_seq(noop_outrider, run_id)
    await changed(
        database,
        f"DELETE FROM run_events WHERE run_seq = {last}",
        f"UPDATE campaign_runs SET last_seq = {last - 1}",
    )
    assert await findings(noop_outrider) == [("run_event", "head", str(last - 1))]


@pytest.mark.parametrize("is_counted", [True, False])
async def test_an_inserted_run_event_is_named(
    noop_outrider: Outrider, database: str, is_counted: bool
) -> None:
    run_id = await ended(noop_outrider)
    last = await last_seq(noop_outrider, run_id)
    async with tampering(database) as raw:
        await raw.run(
            "INSERT INTO run_events (run_id, run_seq, type, emitter, logical_attempt,"
            " plan_version, idempotency_key, payload, occurred_at)"
            " SELECT run_id, run_seq + 1, 'RunCancelled', 'engine', 1, plan_version,"
            f" {raw.blob(bytes(32))}, payload, occurred_at FROM run_events"
            f" WHERE run_seq = {last}"
        )
        if is_counted:
            await raw.run("UPDATE campaign_runs SET last_seq = last_seq + 1")
    assert await findings(noop_outrider) == [("run_event", "inserted", str(last + 1))]


async def test_a_run_whose_hashes_were_taken_away_is_not_taken_for_an_old_one(
    noop_outrider: Outrider, database: str
) -> None:
    await ended(noop_outrider)
    run_id = await ended(noop_outrider)
    await changed(
        database,
        f"UPDATE run_events SET chain_hash = NULL WHERE run_id = '{run_id}'",
        f"UPDATE campaign_runs SET chain_head = NULL WHERE id = '{run_id}'",
    )
    found = await findings(noop_outrider)
    # Where the worker had time to seal the run, the seal has kept its head.
    head = ("run_event", "head", str(await last_seq(noop_outrider, run_id)))
    assert [each for each in found if each != head] == [("run", "unchained", run_id)]


async def test_events_from_before_the_chain_are_counted_and_what_follows_is_protected(
    noop_outrider: Outrider, database: str
) -> None:
    run_id = await noop_launch(noop_outrider)
    await changed(
        database,
        "UPDATE run_events SET chain_hash = NULL",
        "UPDATE campaign_runs SET chain_head = NULL",
    )
    await work_until_terminal(noop_outrider, run_id)
    found = await verified(noop_outrider)
    assert (found.before_chain, found.findings) == (1, [])
    await changed(database, "UPDATE run_events SET payload = '{}' WHERE run_seq = 2")
    assert await findings(noop_outrider) == [("run_event", "edited", "2")]


async def test_a_run_that_was_removed_with_all_its_rows_is_named(
    noop_outrider: Outrider, database: str
) -> None:
    run_id = await ended(noop_outrider)
    await changed(
        database,
        "DELETE FROM run_events",
        "DELETE FROM campaign_runs",
    )
    assert ("run", "removed", run_id) in await findings(noop_outrider)


async def test_an_edited_entry_of_the_audit_log_is_named(
    noop_outrider: Outrider, database: str
) -> None:
    await ended(noop_outrider)
    ids = await audit_ids(database)
    for edit in ("actor = 'nobody'", "detail = '{}'", "event = 'else'", "run_id = NULL"):
        await changed(database, f"UPDATE campaign_audit_log SET {edit} WHERE id = '{ids[0]}'")
        assert await findings(noop_outrider) == [("audit_entry", "edited", ids[0])]


async def test_removed_entries_of_the_audit_log_are_named(
    noop_outrider: Outrider, database: str
) -> None:
    await ended(noop_outrider)
    await recorded(noop_outrider, 3)
    first, *_, middle, last = await audit_ids(database)
    await changed(database, f"DELETE FROM campaign_audit_log WHERE id IN ('{first}', '{middle}')")
    assert await findings(noop_outrider) == [
        ("audit_entry", "removed", first),
        ("audit_entry", "removed", middle),
    ]
    await changed(
        database,
        f"DELETE FROM campaign_audit_log WHERE id = '{last}'",
        f"DELETE FROM audit_chain WHERE id = '{last}'",
    )
    how_many = len(await audit_ids(database)) + 3
    assert (await findings(noop_outrider))[-1] == ("audit_entry", "removed", str(how_many))


@pytest.mark.parametrize("is_seen", [True, False])
async def test_an_entry_that_somebody_put_into_the_audit_log_is_named(
    noop_outrider: Outrider, database: str, is_seen: bool
) -> None:
    """Also where the database's own trigger has queued it, and it was chained."""
    await ended(noop_outrider)
    forged = str(noop_outrider.ids.new())
    insert = (
        "INSERT INTO campaign_audit_log (id, tenant_id, workspace_id, actor, event, detail,"
        f" created_at) SELECT '{forged}', tenant_id, workspace_id, 'key:ada', 'doubt.resolved',"
        " detail, created_at FROM campaign_audit_log LIMIT 1"
    )
    await changed(database, insert)
    if is_seen:
        await changed(database, f"INSERT INTO unchained_audit VALUES ('{forged}')")
        await noop_outrider.audit_chainer.chain()
    assert await findings(noop_outrider) == [("audit_entry", "inserted", forged)]


async def test_two_appenders_never_fork_a_chain(noop_outrider: Outrider) -> None:
    """Each waits for the run's row and then continues from the head that it finds there."""
    run_id = await noop_launch(noop_outrider)
    now = noop_outrider.clock.now()

    def appended(number: int) -> Sequence[EventDraft]:
        return [EventDraft(RunEventType.STEP_STARTED, f"step-{number}-{each}") for each in range(3)]

    await asyncio.gather(
        *(
            noop_outrider.store.write(run_log.append(run_id, "1", appended(number), now))
            for number in range(40)
        )
    )
    found = await verified(noop_outrider)
    assert found.findings == []
    assert found.checked[Proven.RUN_EVENT] == 121


async def recorded(outrider: Outrider, count: int) -> None:
    entries = [AuditEntry(DEFAULT_SCOPE, "test.recorded", "test") for _ in range(count)]
    await outrider.store.write(audit.record(entries, outrider.ids, outrider.clock.now()))
    await outrider.audit_chainer.chain()


async def audit_ids(database: str) -> list[str]:
    async with tampering(database) as raw:
        rows = await raw.run("SELECT id FROM campaign_audit_log ORDER BY id")
    return [str(row[0]) for row in rows]


async def test_who_appends_the_same_event_at_the_same_moment_takes_no_sequence_for_it(
    noop_outrider: Outrider,
) -> None:
    """One of them appends; the others find it there, or are told to try again."""
    run_id = await noop_launch(noop_outrider)
    now = noop_outrider.clock.now()

    async def tried(number: int) -> None:
        drafts = [EventDraft(RunEventType.STEP_STARTED, f"step-{each}") for each in range(number)]
        with contextlib.suppress(StoreUnavailable):
            await noop_outrider.store.write(run_log.append(run_id, "1", drafts, now))

    await asyncio.gather(*(tried(number) for number in range(1, 30)))
    await tried(30)
    found = await verified(noop_outrider)
    assert found.findings == []
    assert found.checked[Proven.RUN_EVENT] == await last_seq(noop_outrider, run_id) == 31
