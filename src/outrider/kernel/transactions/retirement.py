"""Retiring runs: which may be, the commit of their bundle, and the windows that remove rows.

A row is removed only in a transaction that has listed it before; the database refuses all others.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.errors import Conflict
from outrider.domain.ids import CampaignId, RunId, Scope, TenantId, WorkspaceId
from outrider.domain.retention import receipt_memory_key
from outrider.kernel.transactions import artifacts, audit, retired_keys
from outrider.kernel.transactions.audit import AuditEntry
from outrider.kernel.transactions.ledger_pages import LedgerPosition
from outrider.kernel.transactions.seals import EndedRun, Tree
from outrider.kernel.transactions.steering import one_at_a_time
from outrider.ports.artifacts import StoredArtifact
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction, Window, ask, ask_alone

RETIRED = "run.retired"
BUNDLE_NAME = "evidence.jsonl"
BUNDLE_TYPE = "application/x-ndjson"


class RetirableRun(NamedTuple):
    ended: EndedRun
    campaign_id: CampaignId
    intended: int


class Retirement(NamedTuple):
    run_id: RunId
    campaign_id: CampaignId
    sha256: str
    events: int
    """Up to which event the run's log is in the bundle."""
    head: bytes | None
    certificate: str
    retired_at: datetime
    removed_at: datetime | None
    scope: Scope
    reference: str | None
    """Where the bundle is."""


class RetiredItem(NamedTuple):
    id: str
    provider_message_id: str | None


def retirable(
    before: datetime, after: tuple[datetime, str], most: int
) -> Transaction[list[RetirableRun]]:
    """The oldest that ended before this time, behind those that were looked at."""
    rows = yield from ask_alone(
        "runs_to_retire", before=before, after_time=after[0], after_id=after[1], most=most
    )
    return [
        RetirableRun(
            EndedRun(
                RunId(run_id), Scope(TenantId(tenant), WorkspaceId(workspace)), status_seq,
                sealed_seq, finished_at,
            ),
            CampaignId(campaign_id),
            intended,
        )
        for run_id, tenant, workspace, status_seq, sealed_seq, finished_at, campaign_id, intended
        in rows
    ]  # fmt: skip


def hold(run_id: RunId, now: datetime, until: datetime) -> Transaction[bool]:
    """False: another process retires it."""
    return bool((yield from ask_alone("hold_retiring_run", run_id=run_id, now=now, until=until)))


def hold_on(run_id: RunId, until: datetime) -> Transaction[None]:
    yield from ask_alone("hold_retiring_run_on", run_id=run_id, until=until)


def release(run_id: RunId) -> Transaction[None]:
    yield from ask_alone("release_retiring_run", run_id=run_id)


def begin(
    run: RetirableRun, stored: StoredArtifact, events: int, certificate: str, actor: str,
    ids: IdSource, now: datetime,
) -> Transaction[bool]:  # fmt: skip
    """From this commit on the bundle is what is known of the run. False: it has moved meanwhile."""
    run_id, scope = run.ended.run_id, run.ended.scope
    yield from one_at_a_time(run.campaign_id)
    rows = yield from ask("lock_run_to_retire", run_id=run_id, now=now)
    if not rows or rows[0][0] != events:
        return False
    artifact_id = ids.new()
    yield from artifacts.save(
        scope, run.campaign_id, run_id, artifact_id, BUNDLE_NAME, BUNDLE_TYPE, stored, now
    )
    yield from ask(
        "insert_retirement",
        run_id=run_id,
        campaign_id=run.campaign_id,
        artifact_id=artifact_id,
        sha256=stored.sha256,
        events=events,
        head=rows[0][1],
        certificate=certificate,
        now=now,
    )
    yield from ask("run_is_retired", run_id=run_id, now=now)
    detail: dict[str, object] = {"sha256": stored.sha256, "sizeBytes": stored.size_bytes}
    entry = AuditEntry(scope, RETIRED, actor, run.campaign_id, run_id, detail=detail)
    yield from audit.record([entry], ids, now)
    return True


def of_run(run_id: RunId) -> Transaction[Retirement | None]:
    rows = yield from ask_alone("retirement_of_run", run_id=run_id)
    if not rows:
        return None
    row = rows[0]
    scope = Scope(TenantId(row[8]), WorkspaceId(row[9]))
    return Retirement(
        row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], scope, row[10]
    )


def under_way(after: str, most: int) -> Transaction[list[RunId]]:
    """Whose rows are not all removed yet."""
    rows = yield from ask_alone("retirements_under_way", after=after, most=most)
    return [RunId(row[0]) for row in rows]


def complete(run_id: RunId, now: datetime) -> Transaction[None]:
    yield from ask("retirement_is_complete", run_id=run_id, now=now)
    yield from ask("release_retiring_run", run_id=run_id)


def refuse_starts(campaign_id: CampaignId) -> Transaction[None]:
    """Whose rows are gone would be sent to again."""
    if (yield from ask("is_campaign_retired", campaign_id=campaign_id)):
        raise Conflict(
            "this campaign is retired: its recipients and messages were removed",
            hint="create a new campaign",
        )


def remove_ledger(
    retirement: Retirement, after: LedgerPosition, most: int, forget_at: datetime
) -> Transaction[tuple[int, LedgerPosition]]:
    """The next window of ledger rows, with everything that belongs to them."""
    rows = yield from ask(
        "ledger_to_retire",
        run_id=retirement.run_id,
        after_job=after.job_id,
        after_id=after.outbox_id,
        most=most,
    )
    if not rows:
        return 0, after
    items = [RetiredItem(row[1], row[2]) for row in rows]
    yield from remove_items(items, retirement.scope.workspace_id, forget_at)
    return len(rows), LedgerPosition(rows[-1][0], rows[-1][1])


def remove_items(
    items: Sequence[RetiredItem], workspace_id: str, forget_at: datetime
) -> Transaction[None]:
    """Ledger rows that have ended, their attempts and receipts. Whoever reports one of these
    receipts again is not believed a second time."""
    window: Window = {"id": [item.id for item in items]}
    receipts = yield from ask("receipts_to_retire", window, workspace_id=workspace_id)
    keys = [(workspace_id, receipt_memory_key(row[1], row[2])) for row in receipts]
    yield from retired_keys.remember(keys, forget_at)
    received: Window = {"id": [row[0] for row in receipts]}
    listed: Window = {"id": [*window["id"], *received["id"]]}
    yield from ask("list_retiring_rows", listed)
    yield from ask("remove_attempts", window)
    yield from ask("remove_late_acceptances", window)
    yield from ask("remove_deliveries", window)
    yield from ask("remove_verdicts", window)
    yield from ask("remove_resubmissions", window)
    yield from ask("remove_item_receipts", window)
    if receipts:
        yield from ask("remove_receipts", received, workspace_id=workspace_id)
    named = [item for item in items if item.provider_message_id is not None]
    if named:
        yield from ask(
            "remove_provider_messages",
            {
                "provider_message_id": [item.provider_message_id for item in named],
                "id": [item.id for item in named],
            },
        )
    yield from ask("remove_items", window)
    yield from ask("clear_retiring_rows", listed)


def remove_events(run_id: RunId, after: int, until: int) -> Transaction[None]:
    listed: Window = {"id": [run_id]}
    yield from ask("list_retiring_rows", listed)
    yield from ask("remove_run_events", run_id=run_id, after=after, until=until)
    yield from ask("remove_run_snapshots", run_id=run_id, after=after, until=until)
    yield from ask("clear_retiring_rows", listed)


def remove_sealed_pages(run_id: RunId, after: int, until: int) -> Transaction[None]:
    for tree in Tree:
        yield from ask(
            "remove_sealed_pages", run_id=run_id, tree=tree.value, after=after, until=until
        )


def remove_exclusions(run_id: RunId) -> Transaction[None]:
    yield from ask_alone("remove_retry_exclusions", run_id=run_id)


def audience_left(campaign_id: CampaignId) -> Transaction[tuple[int, int] | None]:
    """Its size and the last of its uploads, once every run of the campaign is retired."""
    sizes = yield from ask("is_all_of_campaign_retired", campaign_id=campaign_id)
    if not sizes:
        return None
    uploads = yield from ask("last_upload", campaign_id=campaign_id)
    return int(sizes[0][0]), int(uploads[0][0])


def remove_audience(campaign_id: CampaignId, after: int, until: int) -> Transaction[None]:
    yield from ask_alone("remove_audience", campaign_id=campaign_id, after=after, until=until)


def remove_uploads(campaign_id: CampaignId, after: int, until: int) -> Transaction[None]:
    yield from ask_alone("remove_uploads", campaign_id=campaign_id, after=after, until=until)


def remove_address_pages(campaign_id: CampaignId, bucket: int) -> Transaction[None]:
    yield from ask_alone("remove_address_pages", campaign_id=campaign_id, bucket=bucket)
