"""Lane delivery: the single messages of one submission target, as they become due.

A lane is a permanent job: its fence identifies the holder of open attempts, its lease recovers it
from a dead worker. Workflow messages are screened again before every attempt.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
import structlog

from outrider.domain.call_results import TARGET_SETUP
from outrider.domain.errors import OutriderError, StoreUnavailable
from outrider.domain.ids import OutboxId, RecipientId
from outrider.domain.message_content import Enclosure, MessageContent
from outrider.domain.retry import Patience
from outrider.domain.states import Channel, ItemStatus
from outrider.domain.submission import REALTIME, Contract
from outrider.domain.unsubscribe import UnsubscribeUrls
from outrider.kernel.access.unsubscriber import Unsubscriber
from outrider.kernel.contracts.contract_cache import ContractCache
from outrider.kernel.delivery.attachment_reader import EnclosureReader
from outrider.kernel.delivery.gateway_caller import GatewayCaller
from outrider.kernel.delivery.gateway_routes import (
    GatewayRoutes,
    Route,
    WorkspaceRoutes,
    history_of,
)
from outrider.kernel.delivery.lane_backlog import AddressTurns, Backlog, Due
from outrider.kernel.delivery.reservations import OpenAttempt, Reserver
from outrider.kernel.delivery.right_of_way import RightOfWay
from outrider.kernel.delivery.screener import Screener
from outrider.kernel.delivery.screens import INVALID_PAYLOAD, readable
from outrider.kernel.delivery.window_outcomes import (
    Deferred,
    Done,
    Lost,
    Suspended,
    WindowOutcome,
    earliest,
)
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import ledger, submissions
from outrider.kernel.transactions.claims import ClaimedLane
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.reserving import Draft
from outrider.kernel.transactions.screening import Deferral, Ending, HeldBack
from outrider.kernel.transactions.settlement import LeaseLost
from outrider.kernel.transactions.submissions import DueItem
from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock
from outrider.ports.stages import Stage, StageObserver, observed

log = structlog.get_logger()

WORKFLOW = "workflow"
ENCLOSURES = "enclosures"
LEFT_WINDOWS_MAX = 10
REFILL_SHARE = 4
"""More is loaded when fewer than this fraction of a window could be called."""


@dataclass(frozen=True, slots=True)
class Routed:
    """What may go now, by its route; and when to check again for items without one, because of
    their target's configuration."""

    groups: list[tuple[Route, list[Due]]]
    held_until: datetime | None = None
    held_items: int = 0


class LaneDelivery:
    def __init__(
        self,
        foundation: Foundation,
        routes: GatewayRoutes,
        contract_cache: ContractCache,
        screener: Screener,
        enclosures: EnclosureReader,
        unsubscriber: Unsubscriber,
        reserver: Reserver,
        caller: GatewayCaller,
        observer: StageObserver,
    ) -> None:
        self._store = foundation.store
        self._routes = routes
        self._contract_cache = contract_cache
        self._screener = screener
        self._enclosures = enclosures
        self._unsubscriber = unsubscriber
        self._reserver = reserver
        self._caller = caller
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._observer = observer
        self._visits: set[_Visit] = set()
        self.wakes = 0
        """Counts wake-ups: how often new work was announced."""
        self.when_missed: Callable[[ClaimedLane], None] = lambda _lane: None

    async def process(self, lane: ClaimedLane) -> LeaseLost | None:
        """Deliver due items for as long as there are any, then give the lane back."""
        for _ in range(self._limits.lane_rounds):
            visit = _Visit(self, lane)
            outcome = await visit.run()
            await self._caller.durable(lane)
            if not isinstance(outcome, Done) or visit.wakes == self.wakes or self.is_stopping:
                break
            # Something arrived while the last items were being closed: no need for another claim.
        if isinstance(outcome, Lost):
            return LeaseLost()
        now = self._clock.now()
        not_before = outcome.until if isinstance(outcome, Deferred) else now
        with observed(self._observer, Stage.SETTLE):
            ours = await self._store.write(submissions.release(lane, not_before, now))
        if visit.wakes != self.wakes:
            # A claimer that looked for a lane meanwhile did not find this one.
            self.when_missed(lane)
        return None if ours else LeaseLost()

    def wake(self) -> None:
        """There may be something new in a lane that is held here, or in another one."""
        self.wakes += 1
        self._caller.right_of_way.expect()
        for visit in self._visits:
            visit.wake()

    def nothing_came(self) -> None:
        """There was no lane to claim; the held ones look for new work themselves."""
        if not self._visits:
            self._caller.right_of_way.looked()

    async def load(self, lane: ClaimedLane, most: int) -> list[DueItem]:
        with observed(self._observer, Stage.LOAD):
            return await self._store.read(submissions.due(lane, most, self._clock.now()))

    async def routed(self, lane: ClaimedLane, rows: Sequence[DueItem]) -> Routed | Lost | Suspended:
        """Which of these may go now, by route."""
        with observed(self._observer, Stage.SCREEN):
            due = await self._screened(lane, rows)
        if isinstance(due, Lost | Suspended):
            return due
        routes = await self._routes.of(lane.scope)
        problems = routes.problems({each.contract for each in due})
        if not problems:
            return Routed(await self._routed(lane, routes, due))
        held = [each for each in due if each.contract in problems]
        until = await self._hold(lane, routes, problems)
        lane_held = await self._defer(lane, held, until)
        if lane_held is not Hold.OURS:
            return Lost() if lane_held is Hold.LOST else Suspended()
        usable = [each for each in due if each.contract not in problems]
        return Routed(await self._routed(lane, routes, usable), until, len(held))

    async def deliver(self, lane: ClaimedLane, route: Route, source: Backlog) -> WindowOutcome:
        urls = await self._unsubscriber.urls()

        async def open_window(window: Sequence[Due]) -> list[OpenAttempt] | Hold:
            opened = await self._open(lane, route, window, urls)
            going = set() if isinstance(opened, Hold) else {each.outbox_id for each in opened}
            for each in window:
                if each.row.id not in going:
                    source.ended(each.row.id)
            source.opened()
            self.right_of_way.leave(each.row.id for each in window)
            return opened

        return await self._caller.deliver(
            lane, route, source, open_window, lambda attempt: source.ended(attempt.outbox_id)
        )

    @property
    def right_of_way(self) -> RightOfWay:
        return self._caller.right_of_way

    @property
    def limits(self) -> Limits:
        return self._limits

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def is_stopping(self) -> bool:
        return self._caller.stopping

    def begin(self, visit: "_Visit") -> None:
        self._visits.add(visit)

    def end(self, visit: "_Visit") -> None:
        self._visits.discard(visit)

    async def _screened(
        self, lane: ClaimedLane, rows: Sequence[DueItem]
    ) -> list[Due] | Lost | Suspended:
        """What may go now. A silence is resolved at any hour, so it is not screened."""
        fresh = [
            row
            for row in rows
            if row.origin == WORKFLOW and not row.is_open and not row.maybe_received
        ]
        passed = await self._screener.screen(lane, fresh) if fresh else {}
        if isinstance(passed, Hold):
            return Lost() if passed is Hold.LOST else Suspended()
        held = {row.id for row in fresh} - passed.keys()
        due: list[Due] = []
        lost: list[OutboxId] = []
        for row in rows:
            if row.id in held:
                continue
            content: MessageContent | str | None = passed.get(row.id)
            if content is None and row.origin == WORKFLOW:
                content = readable(row.payload)
            if isinstance(content, str):
                # It may have arrived, and there is no way to ask again.
                lost.append(row.id)
                continue
            due.append(Due(row, await self._contract_cache.by_id(row.contract_id), content))
        if lost:
            await self._store.write(ledger.doubt(lane, lost, self._clock.now()))
            log.warning("items_in_doubt", job_id=lane.id, items=len(lost), why="worker_lost")
        return due

    async def _routed(
        self, lane: ClaimedLane, routes: WorkspaceRoutes, due: Sequence[Due]
    ) -> list[tuple[Route, list[Due]]]:
        """Items by their route; those that must not be called again are put in doubt."""
        now = self._clock.now()
        routed, unsafe = await routes.sorted_by_route(
            (
                (each, each.contract, each.row.fallback_contract_id, history_of(each.row))
                for each in due
            ),
            now,
        )
        if unsafe:
            await self._store.write(ledger.doubt(lane, [each.row.id for each in unsafe], now))
            log.warning("items_in_doubt", job_id=lane.id, items=len(unsafe), why="worker_lost")
        return routed

    async def _hold(
        self,
        lane: ClaimedLane,
        routes: WorkspaceRoutes,
        problems: Mapping[Contract, OutriderError],
    ) -> datetime:
        """A configuration error of the target does not count against the waiting items."""
        return min([
            await self._caller.hold(
                lane, contract, problem, own_door=routes.is_scoped(contract)
            )
            for contract, problem in problems.items()
        ])  # fmt: skip

    async def _defer(self, lane: ClaimedLane, held: Sequence[Due], until: datetime) -> Hold:
        """Workflow items record what they wait for, and their deadline counts from when they could
        go. A client's own items keep their deadline, and possibly received ones stay unchanged:
        they simply wait."""
        deferred = [
            Deferral(each.row.id, until, TARGET_SETUP, each.row.deadline_from(until))
            for each in held
            if each.content is not None and not (each.row.is_open or each.row.maybe_received)
        ]
        if not deferred:
            return Hold.OURS
        return await self._screener.hold_back(lane, HeldBack(deferred, [], []))

    async def _open(
        self,
        lane: ClaimedLane,
        route: Route,
        window: Sequence[Due],
        urls: UnsubscribeUrls | None,
    ) -> list[OpenAttempt] | Hold:
        drafts = {}
        held_back = HeldBack([], [], [])
        patience = await self._screener.patience(lane)
        for each in window:
            enclosures = await self._enclosed(lane, each, held_back)
            if enclosures is not None:
                drafts[each.row.id] = _draft(lane, each, enclosures, urls, patience), each.contract
        if any(held_back):
            held = await self._screener.hold_back(lane, held_back)
            if held is not Hold.OURS:
                return held
        self._observer.before(Stage.OPEN)
        if any(each.row.is_open for each in window):
            opened = await self._reserver.reopen(lane, route, drafts, abandoned=True)
        else:
            opened = await self._reserver.open_due(lane, route, drafts)
        self._observer.after(Stage.OPEN)
        return opened

    async def _enclosed(
        self, lane: ClaimedLane, due: Due, held_back: HeldBack
    ) -> list[Enclosure] | None:
        """The files that go with it; None if it cannot go because of them."""
        row = due.row
        if due.content is None:
            return []
        enclosures: list[Enclosure] | str | None = None
        try:
            enclosures = await self._enclosures.read(due.content)
        except StoreUnavailable as error:
            # The artifact store may be unavailable for a while; that must not affect other items.
            log.warning("enclosures_unavailable", outbox_id=row.id, error=error.message)
        if isinstance(enclosures, list):
            return enclosures
        now = self._clock.now()
        if row.is_open or row.maybe_received:
            # It may have arrived, and cannot be queried without its files.
            await self._store.write(ledger.doubt(lane, [row.id], now))
        elif enclosures is None:
            until = now + timedelta(seconds=self._limits.enclosure_wait_seconds)
            held_back.deferred.append(Deferral(row.id, until, ENCLOSURES, row.deadline_from(until)))
        else:
            held_back.failed.append(Ending(row.id, INVALID_PAYLOAD, enclosures))
        return None


class _Visit:
    """One holding of a lane: it loads due items while calls are in progress, so that no call holds
    up the others, and ends when nothing is left or the doors of all routes are closed."""

    def __init__(self, delivery: LaneDelivery, lane: ClaimedLane) -> None:
        self._delivery = delivery
        self._lane = lane
        self._limits = delivery.limits
        self._turns = AddressTurns()
        self._backlogs: dict[tuple[str, str], Backlog] = {}
        self._calls: dict[tuple[str, str], asyncio.Task[WindowOutcome]] = {}
        self._deferred: dict[tuple[str, str], Deferred] = {}
        self._left = 0
        """How many of the items loaded last wait for a route whose door is closed."""
        self._has_other_routes = False
        self._looked_at = float("-inf")
        self.wakes = delivery.wakes
        """The wake-up count at the last load."""
        self._entered: set[OutboxId] = set()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> WindowOutcome:
        self._delivery.begin(self)
        try:
            return await self._run()
        finally:
            self._delivery.end(self)
            for backlog in self._backlogs.values():
                backlog.close()
            self._delivery.right_of_way.leave(self._entered)
            if self._calls:
                await asyncio.wait(self._calls.values())

    async def _run(self) -> WindowOutcome:
        rounds = 0
        while True:
            self._woken.clear()
            self.wakes = self._delivery.wakes
            found = await self._look()
            self._delivery.right_of_way.looked()
            if isinstance(found, Lost | Suspended):
                return found
            rounds += found > 0
            ended = self._settled_routes()
            if isinstance(ended, Lost | Suspended):
                return ended
            is_idle = not any(each.out or len(each) for each in self._backlogs.values())
            if is_idle and not found:
                return self._outlook()
            if rounds >= self._limits.lane_rounds or self._delivery.is_stopping:
                return await self._finish()
            await self._rest()

    async def _look(self) -> int | Lost | Suspended:
        """Load due items that are not known here yet; returns how many there were."""
        window = self._limits.lane_window_items
        known = sum(len(each) for each in self._backlogs.values())
        if known >= window or self._has_enough(window // REFILL_SHARE):
            return 0
        # Items waiting for a closed door must not hide the ones behind them.
        most = min(window + known + self._left, LEFT_WINDOWS_MAX * window)
        rows = await self._delivery.load(self._lane, most)
        fresh = [row for row in rows if not any(b.has(row.id) for b in self._backlogs.values())]
        if not fresh:
            return 0
        self._go_first(fresh)
        routed = await self._delivery.routed(self._lane, fresh)
        if isinstance(routed, Lost | Suspended):
            return routed
        added = self._left = 0
        if routed.held_until is not None:
            self._deferred["", ""] = Deferred(routed.held_until)
            self._left += routed.held_items
        for route, group in routed.groups:
            key = route.submission_target, route.gateway_url
            if key in self._deferred:
                self._left += len(group)
                continue
            self._put(key, route, group)
            added += len(group)
        fallbacks = any(row.fallback_contract_id is not None for row in fresh)
        self._has_other_routes = self._has_other_routes or fallbacks or len(routed.groups) > 1
        return added

    def _go_first(self, fresh: Sequence[DueItem]) -> None:
        """Each of them once: an item that has to wait for its door loses the priority."""
        if self._lane.mode != REALTIME:
            return
        new = {row.id for row in fresh} - self._entered
        if new:
            self._entered |= new
            self._delivery.right_of_way.enter(new)

    def _has_enough(self, least: int) -> bool:
        """Whether there is enough to do for the moment: a load reads everything known here again.
        It is done now and then anyway, for routes that have nothing yet."""
        now = self._delivery.clock.monotonic()
        ready = sum(each.waiting() for each in self._backlogs.values())
        if ready > least and now - self._looked_at < self._limits.lane_look_seconds:
            return True
        self._looked_at = now
        return False

    def _put(self, key: tuple[str, str], route: Route, group: Sequence[Due]) -> None:
        if key not in self._backlogs:
            self._backlogs[key] = Backlog(self._turns, self._limits.enclosing_items, self.wake)
        backlog = self._backlogs[key]
        backlog.put(group)
        if key not in self._calls:
            task = asyncio.create_task(self._delivery.deliver(self._lane, route, backlog))
            task.add_done_callback(lambda _task: self.wake())
            self._calls[key] = task

    def _settled_routes(self) -> Lost | Suspended | None:
        """Routes whose door closed are left alone until the next visit."""
        for key, task in list(self._calls.items()):
            if not task.done():
                continue
            del self._calls[key]
            self._backlogs.pop(key).close()
            outcome = task.result()
            if isinstance(outcome, Lost | Suspended):
                return outcome
            if isinstance(outcome, Deferred):
                self._deferred[key] = outcome
        return None

    def _outlook(self) -> WindowOutcome:
        deferred: Deferred | None = None
        for each in self._deferred.values():
            deferred = earliest(deferred, each)
        if deferred is not None and self._has_other_routes:
            # New items for the open routes must not wait for the closed one.
            soon = self._delivery.clock.now() + timedelta(seconds=self._limits.idle_poll_seconds)
            deferred = Deferred(min(deferred.until, soon))
        return deferred or Done()

    async def _finish(self) -> WindowOutcome:
        """Take nothing new, and wait for the calls in progress."""
        for backlog in self._backlogs.values():
            backlog.close()
        if self._calls:
            await asyncio.wait(self._calls.values())
        ended = self._settled_routes()
        return ended or self._outlook()

    async def _rest(self) -> None:
        """Wait until a call ended, something new came, or the next load is due."""
        for backlog in self._backlogs.values():
            backlog.wake()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.lane_look_seconds):
                await self._woken.wait()


def _draft(
    lane: ClaimedLane,
    due: Due,
    enclosures: Sequence[Enclosure],
    urls: UnsubscribeUrls | None,
    patience: Patience,
) -> Draft:
    row, content = due.row, due.content
    recipient_id = RecipientId(row.recipient_id)
    if content is None:
        payload = msgspec.json.decode(row.payload)
        return Draft(
            row.id, recipient_id, row.address, None, "", row.key, ItemStatus.QUEUED, None, None,
            payload, payload_text=row.payload,
        )  # fmt: skip
    url = None
    is_mail = row.channel == Channel.EMAIL and row.address is not None
    if urls is not None and is_mail and not row.transactional:
        # Unsubscribing has no effect on transactional messages.
        url = urls.url_of(lane.scope, Channel.EMAIL, row.address or "", row.topic)
    return Draft(
        row.id, recipient_id, row.address, content.subject, content.body, row.key,
        ItemStatus.QUEUED, None, None, None, enclosures, url, content.html, patience,
    )  # fmt: skip
