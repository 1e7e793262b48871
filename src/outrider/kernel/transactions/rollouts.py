"""Rollouts: the steps of a launch, from its plan to the release of the last one.

Steps advance under the lock on their campaign's controls, so that two keepers, or a keeper and a
person, release each of them once.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import CampaignId, RunId, Scope, TenantId, WorkspaceId
from outrider.domain.pause_rates import ExceededRate
from outrider.domain.rollouts import (
    DrawnShare,
    RolloutStep,
    Share,
    StepProgress,
    drawn,
)
from outrider.domain.run_events import RunEventType, rollout_step
from outrider.domain.times import rfc3339
from outrider.kernel.transactions import accountings, run_log, run_records, variants
from outrider.kernel.transactions.phase_controls import ControlAnswer
from outrider.kernel.transactions.run_log import EventDraft
from outrider.kernel.transactions.steering import one_at_a_time
from outrider.ports.store import Rows, Transaction, ask, ask_alone

BY_PLAN = "plan"
"""Who released a step whose turn it was."""


def drawn_shares(
    campaign_id: CampaignId, run_id: RunId, found: Sequence[Share]
) -> Transaction[list[DrawnShare]]:
    ranks = [share.last_rank for share in found[:-1]]
    rows: Rows = []
    if ranks:
        rows = yield from ask(
            "draws_at_ranks", {"rank": ranks}, campaign_id=campaign_id, salt=run_id
        )
    return drawn(found, {int(rank): int(draw) for rank, draw in rows})


def count_batches(
    campaign_id: CampaignId, run_id: RunId, batch_size: int, found: Sequence[DrawnShare]
) -> Transaction[Rows]:
    """How many members of each batch are in which of the shares, counted from 0."""
    return (
        yield from ask(
            "count_drawn_batches",
            {
                "share": range(len(found)),
                "first_draw": [share.first_draw for share in found],
                "last_draw": [share.last_draw for share in found],
            },
            campaign_id=campaign_id,
            salt=run_id,
            batch_size=batch_size,
        )
    )


def plan(
    run_id: RunId,
    plan_version: str,
    steps: Sequence[RolloutStep],
    items: Mapping[int, int],
    first: int,
    now: datetime,
) -> Transaction[None]:
    """Write the steps, each with its number of items. The first is released with the run, and those
    before it are over."""
    numbers = range(1, len(steps) + 1)
    yield from ask(
        "insert_rollout_steps",
        {
            "step": numbers,
            "percent": [float(step.percent) for step in steps],
            "hold_seconds": [step.hold_minutes * 60.0 for step in steps],
            "items": [items.get(number, 0) for number in numbers],
            "released_at": [now if number <= first else None for number in numbers],
        },
        run_id=run_id,
    )
    yield from ask("pass_steps", run_id=run_id, step=first, now=now)
    planned = [
        {"step": number, **step.as_document(), "items": items.get(number, 0)}
        for number, step in enumerate(steps, start=1)
    ]
    draft = EventDraft(RunEventType.ROLLOUT_PLANNED, payload={"steps": planned})
    yield from run_log.append(run_id, plan_version, [draft], now)


def of_runs(run_ids: Collection[RunId]) -> Transaction[dict[RunId, list[StepProgress]]]:
    """Runs without a rollout are not among them."""
    found: dict[RunId, list[StepProgress]] = {}
    rows = yield from ask("rollout_steps_of_runs", {"id": list(run_ids)})
    for run_id, *progress in rows:
        found.setdefault(RunId(run_id), []).append(StepProgress(*progress))
    return found


def of_run(run_id: RunId) -> Transaction[list[StepProgress]]:
    return (yield from of_runs([run_id])).get(run_id, [])


class OpenRollout(NamedTuple):
    """The step that a run is at."""

    run_id: RunId
    scope: Scope
    campaign_id: CampaignId
    step: int
    hold_seconds: float
    items: int
    ended_at: datetime | None
    halted_for: frozenset[str]
    has_next: bool
    is_sending: bool
    awaits_winner: bool
    """The next step cannot be sent before somebody has chosen a variant."""

    @property
    def progress(self) -> StepProgress:
        return StepProgress(self.step, 0, self.hold_seconds, self.items, ended_at=self.ended_at)


def open_rollouts(after: str, most: int) -> Transaction[list[OpenRollout]]:
    """Of runs that are neither paused nor over, in the order of their ids."""
    rows = yield from ask_alone("open_rollouts", after=after, most=most)
    return [
        OpenRollout(
            RunId(run_id), Scope(TenantId(tenant), WorkspaceId(workspace)), CampaignId(campaign),
            step, hold_seconds, items, ended_at, frozenset(halted_for.split()),
            bool(has_next), bool(is_sending), bool(awaits_winner),
        )
        for (
            run_id, tenant, workspace, campaign, step, hold_seconds, items, ended_at, halted_for,
            has_next, is_sending, awaits_winner,
        ) in rows
    ]  # fmt: skip


def close_ended(now: datetime) -> Transaction[None]:
    """Steps of runs that have ended, or were stopped, are over too."""
    yield from ask_alone("close_rollouts", now=now)


def end_step(at: OpenRollout, now: datetime) -> Transaction[bool]:
    """Everything of the step was sent: its hold begins. False: another process was first."""
    yield from one_at_a_time(at.campaign_id)
    rows = yield from ask("end_step", run_id=at.run_id, step=at.step, now=now)
    if not rows:
        return False
    run = yield from run_records.lock(at.run_id)
    accounting = yield from accountings.run_accounting(at.run_id)
    hold_until = at._replace(ended_at=now).progress.hold_until
    payload: dict[str, object] = {
        "step": at.step,
        "percent": rows[0][0],
        "items": rows[0][1],
        "accounting": accounting.as_document(),
    }
    if at.has_next and hold_until is not None:
        payload["holdUntil"] = rfc3339(hold_until)
    draft = EventDraft(RunEventType.ROLLOUT_STEP_ENDED, rollout_step(at.step), payload=payload)
    yield from run_log.append(at.run_id, run.plan_version, [draft], now)
    return True


def release_next(
    run_id: RunId,
    at_step: int,
    released_by: str,
    now: datetime,
    drafts: Sequence[EventDraft] = (),
) -> Transaction[bool]:
    """Release the step after this one, and log these events before it; the caller has the lock on
    the campaign's controls, and knows that the run is not paused. False: it was released before."""
    step = at_step + 1
    yield from ask("release_step_jobs", run_id=run_id, step=step, now=now)
    run = yield from run_records.lock(run_id)
    rows = yield from ask(
        "release_step", run_id=run_id, step=step, released_by=released_by, now=now
    )
    if not rows:
        return False
    yield from ask("pass_steps", run_id=run_id, step=step, now=now)
    payload = {"step": step, "percent": rows[0][0], "items": rows[0][1], "by": released_by}
    draft = EventDraft(RunEventType.ROLLOUT_STEP_RELEASED, rollout_step(step), payload=payload)
    yield from run_log.append(run_id, run.plan_version, [*drafts, draft], now)
    return True


def _goes_on(at: OpenRollout) -> Transaction[bool]:
    """Whether the run is still at this step and not paused, under the lock on its controls."""
    return bool((yield from ask("rollout_goes_on", run_id=at.run_id, step=at.step)))


def waiting_step(run_id: RunId) -> Transaction[int | None]:
    """The step that cannot be sent before somebody has chosen a variant."""
    rows = yield from ask("step_without_winner", run_id=run_id)
    return rows[0][0] if rows else None


def choose_by_receipts(at: OpenRollout, found: variants.Leader, now: datetime) -> Transaction[bool]:
    """False: somebody paused the run meanwhile, or has chosen."""
    yield from one_at_a_time(at.campaign_id)
    if not (yield from _goes_on(at)):
        return False
    return (yield from variants.choose_by_receipts(found, now))


def release_by_plan(at: OpenRollout, now: datetime) -> Transaction[bool]:
    """False: somebody paused or advanced it meanwhile, or has to choose a variant first."""
    yield from one_at_a_time(at.campaign_id)
    if not (yield from _goes_on(at)):
        return False
    if at.step + 1 == (yield from waiting_step(at.run_id)):
        return False
    return (yield from release_next(at.run_id, at.step, BY_PLAN, now))


def halting(
    at: OpenRollout, exceeded: Sequence[ExceededRate], now: datetime
) -> Callable[[Transaction[ControlAnswer]], Transaction[ControlAnswer]]:
    """What a pause writes besides, in its own transaction: which rates, at which step."""

    def guard(pause: Transaction[ControlAnswer]) -> Transaction[ControlAnswer]:
        answer = yield from pause
        if answer.changed:
            kinds = sorted(at.halted_for | {each.limit for each in exceeded})
            yield from ask("halt_step", run_id=at.run_id, step=at.step, halted_for=" ".join(kinds))
            version = (yield from run_records.lock(at.run_id)).plan_version
            payload: dict[str, object] = {
                "step": at.step,
                "reason": "; ".join(each.description for each in exceeded),
                "rates": [each.as_document() for each in exceeded],
            }
            event = rollout_step(at.step, " ".join(kinds))
            draft = EventDraft(RunEventType.ROLLOUT_HALTED, event, payload=payload)
            yield from run_log.append(at.run_id, version, [draft], now)
        return answer

    return guard
