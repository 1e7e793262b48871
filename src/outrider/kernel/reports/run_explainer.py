"""The run explainer: describes in sentences the state of a run, and what it is waiting for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from outrider.domain.delivery_counts import DeliveryCounts
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE, RunId, Scope
from outrider.domain.states import ItemStatus, JobStatus, RunStatus
from outrider.domain.submission import Contract
from outrider.domain.targets import DoorState
from outrider.domain.times import rfc3339
from outrider.kernel.contracts.contract_cache import ContractCache
from outrider.kernel.contracts.registry_keeper import RegistryKeeper
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import repointing, run_pictures, targets
from outrider.kernel.transactions.repointing import QueueView
from outrider.kernel.transactions.run_pictures import Picture
from outrider.kernel.transactions.run_records import RunRecord
from outrider.kernel.transactions.targets import ClosedDoor, PausedTarget


@dataclass(frozen=True, slots=True)
class RunRoute:
    """Where messages of the run go, and the state of that target. URLs are shown to operators
    only."""

    submission_target: str
    gateway_url: str | None
    registry_url: str | None
    """The target's current URL in the registry, if it differs."""
    is_elsewhere: bool
    doors: Sequence[ClosedDoor]
    paused: PausedTarget | None

    @property
    def is_open(self) -> bool:
        return not self.doors and self.paused is None


class RunExplainer:
    def __init__(self, foundation: Foundation, registry: RegistryKeeper) -> None:
        self._store = foundation.store
        self._registry = registry
        self._contract_cache = ContractCache(foundation.store)
        self._clock = foundation.clock
        self._limits = foundation.limits

    async def explain(self, scope: Scope, run_id: RunId) -> list[str]:
        picture = await self._store.read(run_pictures.picture(scope, run_id))
        run, accounting = picture.run, picture.accounting
        if run.waits_for is not None or not accounting.waiting:
            return explain_run(picture)
        now = self._clock.now()
        queue = await self._store.read(repointing.queue_view(run_id, now))
        return explain_run(picture, await self._routes(scope, run_id), queue, now)

    async def _routes(self, scope: Scope, run_id: RunId) -> list[RunRoute]:
        most = self._limits.page_items
        doors = await self._store.read(targets.doors_that_hold(scope, run_id, most))
        paused = await self._store.read(targets.paused_targets())
        in_force = self._in_force()
        routes = []
        for found in await self._store.read(repointing.contracts_of(run_id)):
            if not found.is_own:
                continue
            contract = await self._contract_cache.by_id(found.contract_id)
            target, url = contract.submission_target, contract.gateway_url
            present = in_force.get(target)
            is_elsewhere = present is not None and present.gateway_url != url
            shown = scope == DEFAULT_SCOPE
            routes.append(
                RunRoute(
                    target,
                    url if shown else None,
                    present.gateway_url if present and is_elsewhere and shown else None,
                    is_elsewhere,
                    [door for door in doors if (door[0], door.gateway_url) == (target, url)],
                    paused.get(target),
                )
            )
        return routes

    def _in_force(self) -> Mapping[str, Contract]:
        """Empty if no registry could be read: a run is explained without it."""
        try:
            return self._registry.contracts()
        except InvalidInput:
            return {}


def explain_run(
    picture: Picture,
    routes: Sequence[RunRoute] = (),
    queue: QueueView | None = None,
    now: datetime | None = None,
) -> list[str]:
    run, accounting, jobs, reasons = picture
    sentences = [
        f"The run is {run.status}: of {run.intended:,} intended items, {accounting.sent:,} were"
        f" sent, {accounting.failed:,} failed and {accounting.skipped:,} were skipped."
    ]
    sentences += _deliveries(accounting.delivery)
    if run.waits_for is not None:
        how = {
            "approval": f"an approval: `outrider run signal {run.id} APPROVE`",
            "room": "capacity in its workspace, and starts automatically",
        }[run.waits_for]
        sentences.append(f"It is waiting for {how}.")
    elif accounting.waiting:
        locked = sum(count.jobs for count in jobs if count.status == JobStatus.LOCKED)
        doing = (
            f"{locked} jobs are being processed" if locked else "no worker is processing its jobs"
        )
        sentences.append(f"{accounting.waiting:,} items are waiting; {doing}.")
        for route in routes:
            sentences += _route(run, route)
        is_free = all(route.is_open for route in routes)
        if not locked and is_free and run.status in (RunStatus.QUEUED, RunStatus.RUNNING):
            sentences.append(_turn(queue, now))
    if accounting.in_doubt:
        so = "" if run.finished_at else ", which keeps the run open"
        sentences.append(
            f"{accounting.in_doubt:,} items are in doubt{so}: `outrider doubts list` shows them."
        )
    sentences += [
        f"{reason.items:,} {reason.status} items: {reason.reason}."
        for reason in reasons
        if reason.status != ItemStatus.QUEUED
    ]
    sentences += [
        f"{count.jobs} jobs are {count.status} after {count.attempts} lost attempts:"
        f" {count.last_error}."
        for count in jobs
        if count.attempts and count.last_error
    ]
    return sentences


def _deliveries(counts: DeliveryCounts | None) -> list[str]:
    if counts is None or not counts.reported:
        return []
    sent = counts.reported + counts.unknown
    said = ", ".join(f"{items:,} {name}" for name, items in counts.named().items() if items)
    return [f"Receipts report of {counts.reported:,} of {sent:,} sent messages: {said}."]


def _route(run: RunRecord, route: RunRoute) -> list[str]:
    where = route.submission_target
    if route.gateway_url is not None:
        where += f" at {route.gateway_url}"
    sentences = []
    if route.paused is not None:
        sentences.append(
            f"The target {where} has been paused since {rfc3339(route.paused.paused_at)} by"
            f" {route.paused.paused_by}: `outrider target resume {route.submission_target}`."
        )
    if route.doors:
        # The shared door and the workspace's own may be closed for one cause: the later one counts.
        door = max(route.doors, key=attrgetter("opens_at"))
        how = "asks to retry later" if door.state == DoorState.THROTTLED else "is closed"
        sentences.append(
            f"The target {where} {how} (since {rfc3339(door.since)}): {door.reason or door.state}."
            f" It is tried again at {rfc3339(door.opens_at)}, and waiting does not use up attempts."
        )
    if route.is_open:
        sentences.append(f"The target {where} is open.")
    if route.is_elsewhere:
        there = f" at {route.registry_url}" if route.registry_url else " at another address"
        sentences.append(
            f"The registry has {route.submission_target}{there} now:"
            f" `outrider run repoint {run.id}` moves the items not attempted yet."
        )
    return sentences


def _turn(queue: QueueView | None, now: datetime | None) -> str:
    """Why no worker holds a job although its targets are open."""
    if queue is None or now is None or queue.due_at is None:
        return "None of its jobs is due."
    if queue.due_at > now:
        return f"Its next job is due at {rfc3339(queue.due_at)}."
    due = f"Its next job has been due since {rfc3339(queue.due_at)}"
    if queue.busy_workers:
        one = queue.busy_workers == 1
        workers = "1 worker is" if one else f"{queue.busy_workers} workers are"
        return f"{due}; {workers} running and busy with other jobs; it will be processed in turn."
    return f"{due} and no worker is processing any job: start one with `outrider work`."
