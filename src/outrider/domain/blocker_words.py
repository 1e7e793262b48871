"""What a blocker says: in words, since when, and what to do. One function per cause."""

from collections.abc import Sequence
from datetime import datetime

from outrider.domain.blocker_facts import (
    Blocker,
    BlockerCode,
    ClosedDoor,
    Doubts,
    HeldByPolicy,
    JobsAtTarget,
    MessageFacts,
    PausedTarget,
    RunFacts,
    SilentHolders,
    Surroundings,
)
from outrider.domain.evidence import Settles
from outrider.domain.rollouts import StepProgress
from outrider.domain.screen_policies import SHAPED, WaitsFor
from outrider.domain.targets import DoorState
from outrider.domain.times import rfc3339
from outrider.domain.workflows import STEP_DELAY

WAITS = {
    WaitsFor.QUIET_HOURS: "the recipient's quiet hours to end",
    WaitsFor.SENDING_WINDOW: "the sending window to open",
    WaitsFor.FREQUENCY_CAP: "room under the frequency cap of its address",
    WaitsFor.WARM_UP: "the next day of its target's warm-up plan",
    WaitsFor.DOMAIN_LIMIT: "its turn under the limits of its recipient's domain",
    WaitsFor.DOMAIN_THROTTLED: "the mailbox provider of its recipient, which asked to retry later",
    STEP_DELAY: "the time of its workflow step",
}
"""What a message itself may wait for; anything else is its target's or its lane's business."""


def awaiting_approval(run: RunFacts) -> Blocker:
    return Blocker(
        BlockerCode.AWAITING_APPROVAL,
        run.created_at,
        "The run waits for an approval.",
        f"Approve it with `outrider run signal {run.id} APPROVE`, or reject it.",
    )


def awaiting_room(run: RunFacts) -> Blocker:
    return Blocker(
        BlockerCode.AWAITING_ROOM,
        run.created_at,
        "The workspace runs as many runs as it may; this one waits for capacity.",
        "Nothing to do: it starts by itself when another run ends.",
    )


def paused(run: RunFacts, since: datetime) -> Blocker:
    return Blocker(
        BlockerCode.PAUSED,
        since,
        f"The phase '{run.phase}' has been paused since {rfc3339(since)}.",
        f"Resume it with `outrider campaign resume {run.campaign_id} {run.phase}`.",
    )


def scheduled(run: RunFacts) -> Blocker:
    return Blocker(
        BlockerCode.SCHEDULED,
        run.created_at,
        f"The run is scheduled for {rfc3339(run.scheduled_for)}.",
        "Nothing to do: it starts by itself.",
    )


def message_waits(message: MessageFacts, what: str, until: datetime) -> Blocker:
    code = BlockerCode.SCHEDULED if what == STEP_DELAY else BlockerCode.QUIET_HOURS
    if what in SHAPED:
        code = BlockerCode.TARGET_SHAPED
    return Blocker(
        code,
        message.updated_at,
        f"The message waits for {WAITS[what]}, until {rfc3339(until)}.",
        "Nothing to do: it is sent then.",
        message.submission_target,
    )


HELD = {
    WaitsFor.QUIET_HOURS: "are in quiet hours",
    WaitsFor.SENDING_WINDOW: "are outside the sending window",
    WaitsFor.FREQUENCY_CAP: "have received as many messages as they may",
    WaitsFor.LOCAL_TIME: "wait for the launch at their local time",
    WaitsFor.WARM_UP: "wait for the next day of the target's warm-up plan",
    WaitsFor.DOMAIN_LIMIT: "wait for their turn under the limits of their domains",
    WaitsFor.DOMAIN_THROTTLED: "wait for mailbox providers that asked to retry later",
}


def held_by_policy(held: Sequence[HeldByPolicy]) -> Blocker:
    is_shaped = all(each.waits_for in SHAPED for each in held)
    until = min(each.until for each in held)
    who = ", ".join(f"{each.items:,} recipients {HELD[each.waits_for]}" for each in held)
    return Blocker(
        BlockerCode.TARGET_SHAPED if is_shaped else BlockerCode.QUIET_HOURS,
        min(each.since for each in held),
        f"{who}. The next of them may be sent to at {rfc3339(until)}.",
        "Nothing to do: it continues by itself. "
        + (
            "`outrider target show` has the target's limits."
            if is_shaped
            else "`outrider workflow policy show` has the policy."
        ),
    )


def rollout_hold(run: RunFacts, step: StepProgress) -> Blocker:
    until, since = step.hold_until, step.ended_at
    assert until is not None
    assert since is not None
    return Blocker(
        BlockerCode.ROLLOUT_HOLD,
        since,
        f"Step {step.step} of {len(run.rollout)} of the rollout was sent; it is watched until"
        f" {rfc3339(until)}.",
        "Nothing to do: the next step follows by itself, unless too much goes wrong. To release it"
        f" now: `outrider campaign advance {run.campaign_id}`.",
    )


def awaiting_winner(run: RunFacts, since: datetime) -> Blocker:
    messages = " and ".join(f"'{each}'" for each in run.without_winner)
    return Blocker(
        BlockerCode.AWAITING_WINNER,
        since,
        f"The variants of {messages} were tested, and the last step of the rollout waits until one"
        " is chosen.",
        f"Compare them with `outrider campaign variants {run.campaign_id}`, then choose one:"
        f" `outrider campaign decide {run.campaign_id} MESSAGE VARIANT`.",
    )


BY_EVIDENCE = {
    Settles.RECEIPT: "by a receipt of its provider",
    Settles.KEY: "by repeating the call under its key",
    Settles.LOOK_UP: "by asking its provider",
}


def doubt_of_message(message: MessageFacts, since: datetime) -> Blocker:
    how = None if message.settles is None else BY_EVIDENCE.get(message.settles)
    if how is not None:
        return Blocker(
            BlockerCode.DOUBTS_SETTLING,
            since,
            f"The message has been in doubt since {rfc3339(since)}: the provider may have it or"
            f" not. That settles {how}.{_next_check(message.next_check_at)}",
            "Nothing to do while a worker runs.",
            message.submission_target,
        )
    return Blocker(
        BlockerCode.IN_DOUBT,
        since,
        f"The message has been in doubt since {rfc3339(since)}: the provider may have it or not,"
        " and it is not sent again until evidence shows which.",
        f"Look it up at the provider, then settle it with `outrider doubts resolve"
        f" {message.outbox_id}`.",
        message.submission_target,
    )


def database_down(since: datetime) -> Blocker:
    """Without the driver's words, which may name hosts and files: those are in the log."""
    return Blocker(
        BlockerCode.DATABASE_DOWN,
        since,
        f"The database has not answered since {rfc3339(since)}.",
        "Restore the database. Work continues by itself; nothing is lost, and no attempt is used.",
    )


def target_paused(jobs: JobsAtTarget, paused: PausedTarget) -> Blocker:
    target = jobs.submission_target
    return Blocker(
        BlockerCode.TARGET_PAUSED,
        paused.paused_at,
        f"The target {where_of(jobs)} has been paused by {paused.paused_by} since"
        f" {rfc3339(paused.paused_at)}.",
        f"Resume it with `outrider target resume {target}`.",
        target,
    )


def target_closed(jobs: JobsAtTarget, door: ClosedDoor, run_id: str | None) -> Blocker:
    is_throttled = door.state is DoorState.THROTTLED
    return Blocker(
        BlockerCode.TARGET_THROTTLED if is_throttled else BlockerCode.TARGET_DOWN,
        door.since,
        door_message(where_of(jobs), door),
        _door_hint(jobs, door, run_id),
        jobs.submission_target,
    )


def door_message(where: str, door: ClosedDoor) -> str:
    if door.state is DoorState.THROTTLED:
        does = "asks to retry later"
    else:
        does = "refuses us or our set-up" if door.is_held else "is down"
    why = f": {door.reason}" if door.reason else ""
    again = f" The next try is at {rfc3339(door.opens_at)}." if door.opens_at else ""
    return (
        f"The target {where} {does} (since {rfc3339(door.since)}){why}.{again} Its messages wait"
        " without using up attempts."
    )


def repoint_hint(jobs: JobsAtTarget, run_id: str) -> str:
    there = f" at {jobs.registry_url}" if jobs.registry_url else " at another address"
    return (
        f"The registry has {jobs.submission_target}{there} now: `outrider run repoint {run_id}`"
        " moves everything that no provider can have yet."
    )


def _door_hint(jobs: JobsAtTarget, door: ClosedDoor, run_id: str | None) -> str:
    target = jobs.submission_target
    if jobs.is_elsewhere and run_id is not None:
        return repoint_hint(jobs, run_id)
    if door.is_held:
        return (
            f"Fix the target's set-up (`outrider check` says what is wrong), then"
            f" `outrider target reset {target}` tries it at once."
        )
    if door.state is DoorState.THROTTLED:
        return (
            f"Nothing to do: it continues by itself. If it lasts, ask the provider, or send less"
            f" with `rate_per_second` of {target}."
        )
    return (
        f"Check the provider and the address of {target} in the registry; it continues by itself"
        f" when the provider answers, and at once with `outrider target reset {target}`."
    )


def silent_worker(jobs: JobsAtTarget, silent: SilentHolders) -> Blocker:
    ends = (
        f" Another worker takes them over at {rfc3339(silent.lease_ends_at)}."
        if silent.lease_ends_at is not None
        else ""
    )
    holds = "1 job" if silent.jobs == 1 else f"{silent.jobs} jobs"
    return Blocker(
        BlockerCode.NO_WORKER,
        silent.since,
        f"The worker {silent.worker} holds {holds} for {jobs.submission_target} and has not"
        f" reported since {rfc3339(silent.since)}: it is frozen, cut off or dead.{ends}",
        "Look at that process (`outrider workers`); if no other worker runs, start one with"
        " `outrider work`.",
        jobs.submission_target,
    )


def database_restored(since: datetime, target: str | None) -> Blocker:
    return Blocker(
        BlockerCode.DATABASE_RESTORED,
        since,
        f"The database was restored or promoted, and sends nothing since {rfc3339(since)}.",
        "`outrider recovery status` says why, `outrider recovery release` lets work begin.",
        target,
    )


def engine_down(since: datetime, target: str | None) -> Blocker:
    return Blocker(
        BlockerCode.ENGINE_DOWN,
        since,
        f"The engine has not answered since {rfc3339(since)}, and hands out no work.",
        "Restore the engine (for Temporal: its server); work continues by itself.",
        target,
    )


def no_worker(around: Surroundings, due_at: datetime, target: str | None) -> Blocker:
    seen_at = around.worker_seen_at
    seen = f"; the last one was seen at {rfc3339(seen_at)}" if seen_at is not None else ""
    return Blocker(
        BlockerCode.NO_WORKER,
        max(due_at, seen_at) if seen_at is not None else due_at,
        f"Work has been due since {rfc3339(due_at)} and no worker is running{seen}.",
        "Start a worker with `outrider work`.",
        target,
    )


def no_taker(jobs: JobsAtTarget, due_at: datetime, around: Surroundings) -> Blocker:
    target = jobs.submission_target
    due = f"Work for {target} has been due since {rfc3339(due_at)}"
    if not jobs.takers:
        return Blocker(
            BlockerCode.NO_WORKER,
            due_at,
            f"{due}, and none of the {around.workers} running workers takes work for it.",
            f"Start one that does: `outrider work --targets {target}`, or without --targets and"
            " --mode.",
            target,
        )
    busy = "1 worker is" if jobs.takers == 1 else f"{jobs.takers} workers are"
    return Blocker(
        BlockerCode.NO_WORKER,
        due_at,
        f"{due}; {busy} running and busy with other jobs.",
        "It gets its turn; more workers (`outrider work`) make it sooner.",
        target,
    )


def run_in_doubt(doubts: Doubts, since: datetime) -> Blocker:
    items = _are(doubts.items)
    others = f" {doubts.settling:,} more settle by evidence." if doubts.settling else ""
    return Blocker(
        BlockerCode.IN_DOUBT,
        since,
        f"Everything else has ended; {items} in doubt and left to people since"
        f" {rfc3339(since)}: no evidence can settle them.{others}",
        "`outrider doubts list --settles person` shows them; settle each with `outrider doubts"
        " resolve`.",
    )


def doubts_settle(doubts: Doubts, since: datetime, run_id: str, *, has_worker: bool) -> Blocker:
    """Nothing is left to people: what the evidence is, and when it is looked for."""
    counts = {
        "by receipts of the provider": doubts.by_receipt,
        "by repeating calls under their keys": doubts.by_key,
        "by asking the provider": doubts.by_look_up,
    }
    known = [f"{count:,} {how}" for how, count in counts.items() if count]
    how = f": {', '.join(known)}" if known else ""
    return Blocker(
        BlockerCode.DOUBTS_SETTLING,
        since,
        f"Everything else has ended; {_are(doubts.settling)} in doubt since {rfc3339(since)} and"
        f" will be settled by evidence{how}.{_next_check(doubts.next_check_at)}",
        f"Nothing to do: `outrider doubts list --run {run_id}` shows them."
        if has_worker
        else "No worker is running, and workers look for evidence: start one with `outrider work`.",
    )


def _are(items: int) -> str:
    return "1 item is" if items == 1 else f"{items:,} items are"


def _next_check(at: datetime | None) -> str:
    return f" The next check is at {rfc3339(at)}." if at is not None else ""


def where_of(jobs: JobsAtTarget) -> str:
    target = jobs.submission_target
    return f"{target} at {jobs.gateway_url}" if jobs.gateway_url else target
