"""The run retirer: an old run becomes its bundle, on both stores, whatever interrupts it."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.errors import Conflict, StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.phases import Action
from outrider.kernel.proof import run_retirer
from outrider.kernel.proof.bundle_verifier import BundleVerifier
from outrider.kernel.proof.database_verifier import Verification
from outrider.kernel.proof.run_retirer import RetiredRuns
from outrider.kernel.transactions import retirement
from outrider.kernel.transactions.phase_controls import Control, RerunScope
from outrider.secrets.signing import is_signed
from tests.support.noop_launches import campaign_of, noop_launch
from tests.support.raw_sql import Refused, raw_sql
from tests.support.tampering import tampering
from tests.support.whole_runs import work_until_terminal

PEOPLE = 7
EMPTIED = (
    "channel_outbox", "attempt_history", "run_events", "sealed_pages", "audience_members",
    "address_pages", "audience_uploads", "provider_messages", "retiring_rows",
)  # fmt: skip
KEPT = ("campaign_runs", "job_queue", "run_seals", "run_requests", "run_snapshots", "retirements")


async def ended(outrider: Outrider, count: int = PEOPLE) -> RunId:
    run_id = await noop_launch(outrider, count)
    await work_until_terminal(outrider, run_id)
    await outrider.projector.project_once()
    await outrider.run_sealer.seal_due()
    await outrider.audit_chainer.chain()
    return run_id


def soon(outrider: Outrider) -> datetime:
    """A time before which everything has ended."""
    return outrider.clock.now() + timedelta(seconds=1)


async def retired(outrider: Outrider) -> RetiredRuns:
    return await outrider.run_retirer.retire(soon(outrider))


async def verified(outrider: Outrider) -> Verification:
    await outrider.audit_chainer.chain()
    return await outrider.database_verifier.verify()


def damage(bundle: Path, change: str) -> None:
    if change == "edit":
        bundle.write_bytes(bundle.read_bytes().replace(b'"sent"', b'"fail"', 1))
    else:
        bundle.unlink()


async def rows_in(database: str, *tables: str) -> dict[str, int]:
    async with raw_sql(database) as raw:
        return {table: (await raw.run(f"SELECT count(*) FROM {table}"))[0][0] for table in tables}


async def test_a_retired_run_leaves_its_bundle_and_no_rows_of_recipients(
    noop_outrider: Outrider, database: str
) -> None:
    run_id = await ended(noop_outrider)
    done = await retired(noop_outrider)
    assert (done.runs, done.rows, done.kept) == (1, PEOPLE, [])
    assert await rows_in(database, *EMPTIED) == dict.fromkeys(EMPTIED, 0)
    assert min((await rows_in(database, *KEPT)).values()) >= 1
    bundle = [piece async for piece in noop_outrider.evidence_writer.bundle(DEFAULT_SCOPE, run_id)]
    found = BundleVerifier(is_signed).verify(b"".join(bundle).splitlines(keepends=True))
    assert found.findings == []
    assert found.counted["ledger"] == PEOPLE


async def test_the_database_still_verifies_and_names_the_run_as_retired(
    noop_outrider: Outrider,
) -> None:
    await ended(noop_outrider)
    await retired(noop_outrider)
    await ended(noop_outrider)
    found = await verified(noop_outrider)
    assert found.findings == []
    assert found.retired == 1


async def test_the_certificate_of_a_retired_run_is_the_one_in_its_bundle(
    noop_outrider: Outrider,
) -> None:
    run_id = await ended(noop_outrider)
    before = await noop_outrider.certifier.document(DEFAULT_SCOPE, run_id)
    await retired(noop_outrider)
    after = await noop_outrider.certifier.document(DEFAULT_SCOPE, run_id)
    assert after["holds"]
    assert after["ledgerDigest"] == before["ledgerDigest"]


async def test_a_dry_run_counts_and_changes_nothing(noop_outrider: Outrider, database: str) -> None:
    await ended(noop_outrider)
    before = await rows_in(database, *EMPTIED, *KEPT)
    found = await noop_outrider.run_retirer.count(soon(noop_outrider))
    assert (found.runs, found.rows) == (1, PEOPLE)
    assert await rows_in(database, *EMPTIED, *KEPT) == before


async def test_a_run_that_ended_later_stays(noop_outrider: Outrider) -> None:
    await ended(noop_outrider)
    an_hour_ago = noop_outrider.clock.now() - timedelta(hours=1)
    assert (await noop_outrider.run_retirer.retire(an_hour_ago)).runs == 0


async def test_a_run_stays_while_another_of_its_campaign_goes_on(noop_outrider: Outrider) -> None:
    run_id = await ended(noop_outrider)
    again = Control(Action.RERUN, "tests", scope=RerunScope.ALL, confirm=True)
    campaign_id = await campaign_of(noop_outrider, run_id)
    await noop_outrider.phase_controller.control(DEFAULT_SCOPE, campaign_id, "launch", again)
    assert (await retired(noop_outrider)).runs == 0


async def test_a_retired_campaign_is_not_launched_again(noop_outrider: Outrider) -> None:
    run_id = await ended(noop_outrider)
    campaign_id = await campaign_of(noop_outrider, run_id)
    await retired(noop_outrider)
    again = Control(Action.RERUN, "tests", scope=RerunScope.ALL, confirm=True)
    with pytest.raises(Conflict, match="retired"):
        await noop_outrider.phase_controller.control(DEFAULT_SCOPE, campaign_id, "launch", again)


@pytest.mark.parametrize("windows", [0, 1, 2, 5, 8])
async def test_a_retirement_that_is_killed_is_completed_by_the_next(
    noop_outrider: Outrider, database: str, monkeypatch: pytest.MonkeyPatch, windows: int
) -> None:
    """Killed after so many windows: nothing is lost, nothing is left."""
    monkeypatch.setattr(run_retirer, "RETIRE_WINDOW_ROWS", 2)
    run_id = await ended(noop_outrider)
    retirer, left = noop_outrider.run_retirer, windows
    rested = retirer._rested

    async def killed(*given: object) -> float:
        nonlocal left
        if left == 0:
            raise StoreUnavailable("killed")
        left -= 1
        return await rested(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(retirer, "_rested", killed)
    with pytest.raises(StoreUnavailable):
        await retired(noop_outrider)
    monkeypatch.setattr(retirer, "_rested", rested)
    assert (await verified(noop_outrider)).findings == []
    assert (await retired(noop_outrider)).runs == 0, "the dead one still holds it"
    await noop_outrider.store.write(retirement.release(run_id))
    assert (await retired(noop_outrider)).runs == 1
    assert await rows_in(database, *EMPTIED) == dict.fromkeys(EMPTIED, 0)
    assert (await verified(noop_outrider)).findings == []


async def test_a_run_whose_rows_were_changed_is_not_retired(
    noop_outrider: Outrider, database: str
) -> None:
    run_id = await ended(noop_outrider)
    async with tampering(database) as raw:
        await raw.run("UPDATE channel_outbox SET error = 'forged'")
    done = await retired(noop_outrider)
    assert [each[0] for each in done.kept] == [run_id]
    assert (await rows_in(database, "channel_outbox"))["channel_outbox"] == PEOPLE


@pytest.mark.parametrize("change", ["edit", "remove"])
async def test_a_bundle_that_was_changed_or_removed_is_found(
    noop_outrider: Outrider, change: str
) -> None:
    run_id = await ended(noop_outrider)
    await retired(noop_outrider)
    kept = await noop_outrider.store.read(retirement.of_run(run_id))
    assert kept is not None
    assert kept.reference is not None
    damage(Path(kept.reference.removeprefix("file://")), change)
    found = await verified(noop_outrider)
    assert [(each.what, each.which) for each in found.findings] == [("bundle", run_id)]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM channel_outbox",
        "DELETE FROM run_events",
    ],
)
async def test_nobody_else_removes_rows(
    noop_outrider: Outrider, database: str, statement: str
) -> None:
    await ended(noop_outrider)
    async with raw_sql(database) as raw:
        with pytest.raises(Refused):
            await raw.run(statement)


async def test_no_job_of_a_retired_run_begins_anew(noop_outrider: Outrider, database: str) -> None:
    await ended(noop_outrider)
    await retired(noop_outrider)
    async with raw_sql(database) as raw:
        with pytest.raises(Refused):
            await raw.run("UPDATE job_queue SET status = 'queued', outcome = NULL")
        with pytest.raises(Refused):
            await raw.run("UPDATE campaign_runs SET status = 'running', finished_at = NULL")
