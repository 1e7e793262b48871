"""Lane delivery: the single messages of one submission target, as they fall due.

A lane is a standing job: its fence tells whose open attempts are whose, its lease brings it back
when a worker dies. Rendering and reserving happened when the message was submitted; what followed
from a domain event is screened before every attempt, because the hour and the recipient's wishes
may have changed since.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import msgspec
import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import OutboxId, RecipientId
from outrider.domain.letters import Enclosure, Letter
from outrider.domain.retry import Patience
from outrider.domain.states import Channel, ItemStatus
from outrider.domain.submission import Contract
from outrider.domain.unsubscribe import UnsubscribeUrls
from outrider.kernel.caller import Caller, Deferred, Done, Lost, Passage, Suspended, earliest
from outrider.kernel.contract_shelf import ContractShelf
from outrider.kernel.enclosures import EnclosureReader
from outrider.kernel.reservations import OpenAttempt, Reserver
from outrider.kernel.routes import Route, Routes, past_of
from outrider.kernel.screener import Screener
from outrider.kernel.screens import INVALID_PAYLOAD, readable
from outrider.kernel.transactions import ledger, submissions
from outrider.kernel.transactions.jobs import ClaimedLane, Hold
from outrider.kernel.transactions.ledger import Draft
from outrider.kernel.transactions.screening import Deferral, Ending, HeldBack
from outrider.kernel.transactions.settlement import LeaseLost
from outrider.kernel.transactions.submissions import DueItem
from outrider.kernel.unsubscriber import Unsubscriber
from outrider.ports.clock import Clock
from outrider.ports.stages import Stage, StageObserver, observed
from outrider.ports.store import Store
from outrider.settings import Limits

log = structlog.get_logger()

WORKFLOW = "workflow"
ENCLOSURES = "enclosures"
LEFT_WINDOWS_MAX = 10
GATEWAY_UNUSABLE = "gateway_unusable"


@dataclass(frozen=True, slots=True)
class Due:
    """An item that is due, under its contract. Without a letter it is a client's own payload."""

    row: DueItem
    contract: Contract
    letter: Letter | None = None


class LaneDelivery:
    def __init__(
        self,
        store: Store,
        routes: Routes,
        shelf: ContractShelf,
        screener: Screener,
        enclosures: EnclosureReader,
        unsubscriber: Unsubscriber,
        reserver: Reserver,
        caller: Caller,
        clock: Clock,
        limits: Limits,
        observer: StageObserver,
    ) -> None:
        self._store = store
        self._routes = routes
        self._shelf = shelf
        self._screener = screener
        self._enclosures = enclosures
        self._unsubscriber = unsubscriber
        self._reserver = reserver
        self._caller = caller
        self._clock = clock
        self._limits = limits
        self._observer = observer
        self._visits: set[_Visit] = set()

    async def process(self, lane: ClaimedLane) -> LeaseLost | None:
        """Deliver what is due, for as long as there is something, then give the lane back."""
        visit = _Visit(self, lane)
        passage = await visit.run()
        await self._caller.durable(lane)
        if isinstance(passage, Lost):
            return LeaseLost()
        now = self._clock.now()
        not_before = passage.until if isinstance(passage, Deferred) else now
        with observed(self._observer, Stage.SETTLE):
            ours = await self._store.write(submissions.release(lane, not_before, now))
        return None if ours else LeaseLost()

    def wake(self) -> None:
        """There may be something new in a lane that is held here."""
        for visit in self._visits:
            visit.wake()

    async def load(self, lane: ClaimedLane, most: int) -> list[DueItem]:
        with observed(self._observer, Stage.LOAD):
            return await self._store.read(submissions.due(lane, most, self._clock.now()))

    async def routed(
        self, lane: ClaimedLane, rows: Sequence[DueItem]
    ) -> list[tuple[Route, list[Due]]] | Lost | Suspended:
        """What of these may go now, by the route it takes."""
        with observed(self._observer, Stage.SCREEN):
            due = await self._screened(lane, rows)
        if isinstance(due, Lost | Suspended):
            return due
        return await self._routed(lane, due)

    async def deliver(self, lane: ClaimedLane, route: Route, source: "Backlog") -> Passage:
        urls = await self._unsubscriber.urls()

        async def open_window(window: Sequence[Due]) -> list[OpenAttempt] | Hold:
            opened = await self._open(lane, route, window, urls)
            going = set() if isinstance(opened, Hold) else {each.outbox_id for each in opened}
            for each in window:
                if each.row.id not in going:
                    source.ended(each.row.id)
            return opened

        return await self._caller.deliver(
            lane, route, source, open_window, lambda attempt: source.ended(attempt.outbox_id)
        )

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
        """What may go now. A silence is resolved whatever the hour, so it is not screened."""
        fresh = [
            row
            for row in rows
            if row.origin == WORKFLOW and not row.is_open and not row.maybe_received
        ]
        passed = await self._screener.screen(lane, fresh) if fresh else []
        if isinstance(passed, Hold):
            return Lost() if passed is Hold.LOST else Suspended()
        held = {row.id for row in fresh} - {row.id for row in passed}
        patience = await self._screener.patience(lane)
        due: list[Due] = []
        lost: list[OutboxId] = []
        for row in rows:
            if row.id in held:
                continue
            letter = readable(row.payload) if row.origin == WORKFLOW else None
            if isinstance(letter, str) or _worn_out(row, patience):
                # It may have arrived, and there is no way, or no more patience, to ask again.
                lost.append(row.id)
                continue
            due.append(Due(row, await self._shelf.by_id(row.contract_id), letter))
        if lost:
            await self._store.write(ledger.doubt(lane, lost, self._clock.now()))
            log.warning("items_in_doubt", job_id=lane.id, items=len(lost), why="worker_lost")
        return due

    async def _routed(self, lane: ClaimedLane, due: Sequence[Due]) -> list[tuple[Route, list[Due]]]:
        """Items by the route they take; those that must not be called again are put in doubt."""
        now = self._clock.now()
        routed, unsafe = await self._routes.sorted_by_route(
            (
                (each, each.contract, each.row.fallback_contract_id, past_of(each.row))
                for each in await self._usable(lane, due)
            ),
            now,
        )
        if unsafe:
            await self._store.write(ledger.doubt(lane, [each.row.id for each in unsafe], now))
            log.warning("items_in_doubt", job_id=lane.id, items=len(unsafe), why="worker_lost")
        return routed

    async def _usable(self, lane: ClaimedLane, due: Sequence[Due]) -> list[Due]:
        """Those whose gateway can be made. A workflow's item fails at once where it cannot, because
        no attempt mends a configuration; a client's own waits, and its lane is tried again."""
        problems = {each.contract: self._routes.problem(each.contract) for each in due}
        usable = [each for each in due if problems[each.contract] is None]
        failed: list[Ending] = []
        for each in due:
            problem = problems[each.contract]
            if problem is None:
                continue
            if each.letter is None:
                raise problem
            if each.row.is_open or each.row.maybe_received:
                await self._store.write(ledger.doubt(lane, [each.row.id], self._clock.now()))
            else:
                failed.append(Ending(each.row.id, GATEWAY_UNUSABLE, problem.message))
        if failed:
            await self._screener.hold_back(lane, HeldBack([], [], failed))
        return usable

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
            opened = await self._reserver.reopen(lane, route.contract_id, drafts, abandoned=True)
        else:
            opened = await self._reserver.open_due(lane, route.contract_id, drafts)
        self._observer.after(Stage.OPEN)
        return opened

    async def _enclosed(
        self, lane: ClaimedLane, due: Due, held_back: HeldBack
    ) -> list[Enclosure] | None:
        """The files that go with it; None where it cannot go because of them."""
        row = due.row
        if due.letter is None:
            return []
        enclosures: list[Enclosure] | str | None = None
        try:
            enclosures = await self._enclosures.read(due.letter)
        except StoreUnavailable as error:
            # Where files are kept may be gone for a while; that is nobody else's trouble.
            log.warning("enclosures_unavailable", outbox_id=row.id, error=error.message)
        if isinstance(enclosures, list):
            return enclosures
        now = self._clock.now()
        if row.is_open or row.maybe_received:
            # It may have arrived, and cannot be asked about without its files.
            await self._store.write(ledger.doubt(lane, [row.id], now))
        elif enclosures is None:
            until = now + timedelta(seconds=self._limits.enclosure_wait_seconds)
            held_back.deferred.append(Deferral(row.id, until, ENCLOSURES, row.deadline_from(until)))
        else:
            held_back.failed.append(Ending(row.id, INVALID_PAYLOAD, enclosures))
        return None


def _worn_out(row: DueItem, patience: Patience) -> bool:
    """Opened as often as it may be, and abandoned each time: it is not to kill one more worker."""
    return row.origin == WORKFLOW and row.is_open and row.attempts >= patience.most_attempts


class Backlog:
    """What waits in a lane for one route: in order, and of each address one at a time."""

    def __init__(
        self, busy: set[str], enclosing_items: int, when_drained: Callable[[], None]
    ) -> None:
        self._busy = busy
        """Addresses with a call out, over whichever route of the lane."""
        self._enclosing_items = enclosing_items
        self._when_drained = when_drained
        self._waiting: dict[OutboxId, Due] = {}
        self._out: dict[OutboxId, str | None] = {}
        self._changed = asyncio.Event()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def out(self) -> int:
        return len(self._out)

    def has(self, outbox_id: OutboxId) -> bool:
        return outbox_id in self._waiting or outbox_id in self._out

    def put(self, due: Sequence[Due]) -> None:
        self._waiting |= {each.row.id: each for each in due}
        self._changed.set()

    def close(self) -> None:
        """No more comes; what waits is left to the next visit."""
        self._is_closed = True
        self._waiting.clear()
        self._changed.set()

    def ended(self, outbox_id: OutboxId) -> None:
        address = self._out.pop(outbox_id, None)
        if address is not None:
            self._busy.discard(address)
        self._changed.set()
        if not self._out and not self._waiting:
            self._when_drained()

    def wake(self) -> None:
        self._changed.set()

    def waiting(self) -> int:
        return len(self._free(len(self._waiting)))

    def take(self, most: int) -> list[Due]:
        taken = self._free(most)
        for each in taken:
            del self._waiting[each.row.id]
            address = _address(each)
            self._out[each.row.id] = address
            if address is not None:
                self._busy.add(address)
        if taken and not self._waiting:
            self._when_drained()
        return taken

    async def more(self) -> bool:
        """Wait until something was added, or an address became free."""
        if self._is_closed:
            return False
        self._changed.clear()
        await self._changed.wait()
        return not self._is_closed or bool(self._waiting)

    def _free(self, most: int) -> list[Due]:
        """Messages with files a few at a time: all of a window's files are in memory at once."""
        taken: list[Due] = []
        seen: set[str] = set()
        enclosing = 0
        for each in self._waiting.values():
            if len(taken) == most:
                break
            address = _address(each)
            if address is not None:
                if address in self._busy or address in seen:
                    continue
                seen.add(address)
            if each.letter is not None and each.letter.attachments:
                if enclosing == self._enclosing_items:
                    continue
                enclosing += 1
            taken.append(each)
        return taken


def _address(due: Due) -> str | None:
    address = due.row.address
    return None if address is None else f"{due.row.channel}:{address.lower()}"


class _Visit:
    """One holding of a lane: it loads what is due while calls are out, so that none of them holds
    up the others, and ends when there is nothing left, or when the doors of all routes closed."""

    def __init__(self, delivery: LaneDelivery, lane: ClaimedLane) -> None:
        self._delivery = delivery
        self._lane = lane
        self._limits = delivery.limits
        self._busy: set[str] = set()
        self._backlogs: dict[tuple[str, str], Backlog] = {}
        self._calls: dict[tuple[str, str], asyncio.Task[Passage]] = {}
        self._deferred: dict[tuple[str, str], Deferred] = {}
        self._left = 0
        """How many of what was loaded last wait for a route whose door is closed."""
        self._has_other_routes = False
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> Passage:
        self._delivery.begin(self)
        try:
            return await self._run()
        finally:
            self._delivery.end(self)
            for backlog in self._backlogs.values():
                backlog.close()
            if self._calls:
                await asyncio.wait(self._calls.values())

    async def _run(self) -> Passage:
        rounds = 0
        while True:
            self._woken.clear()
            found = await self._look()
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
        """Load what is due and not known here yet; how many there were."""
        known = sum(len(each) for each in self._backlogs.values())
        if known >= self._limits.lane_window_items:
            return 0
        window = self._limits.lane_window_items
        # Those that wait for a closed door are not to hide the others behind them.
        most = min(window + known + self._left, LEFT_WINDOWS_MAX * window)
        rows = await self._delivery.load(self._lane, most)
        fresh = [row for row in rows if not any(b.has(row.id) for b in self._backlogs.values())]
        if not fresh:
            return 0
        routed = await self._delivery.routed(self._lane, fresh)
        if isinstance(routed, Lost | Suspended):
            return routed
        added = self._left = 0
        for route, group in routed:
            key = route.submission_target, route.gateway_url
            if key in self._deferred:
                self._left += len(group)
                continue
            self._put(key, route, group)
            added += len(group)
        fallbacks = any(row.fallback_contract_id is not None for row in fresh)
        self._has_other_routes = self._has_other_routes or fallbacks or len(routed) > 1
        return added

    def _put(self, key: tuple[str, str], route: Route, group: Sequence[Due]) -> None:
        if key not in self._backlogs:
            self._backlogs[key] = Backlog(self._busy, self._limits.enclosing_items, self.wake)
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
            passage = task.result()
            if isinstance(passage, Lost | Suspended):
                return passage
            if isinstance(passage, Deferred):
                self._deferred[key] = passage
        return None

    def _outlook(self) -> Passage:
        deferred: Deferred | None = None
        for each in self._deferred.values():
            deferred = earliest(deferred, each)
        if deferred is not None and self._has_other_routes:
            # What comes meanwhile for the open routes must not wait for the closed one.
            soon = self._delivery.clock.now() + timedelta(seconds=self._limits.idle_poll_seconds)
            deferred = Deferred(min(deferred.until, soon))
        return deferred or Done()

    async def _finish(self) -> Passage:
        """Take nothing new, and wait for what is out."""
        for backlog in self._backlogs.values():
            backlog.close()
        if self._calls:
            await asyncio.wait(self._calls.values())
        ended = self._settled_routes()
        return ended or self._outlook()

    async def _rest(self) -> None:
        """Until something ended, something new came, or it is time for another look."""
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
    row, letter = due.row, due.letter
    known = Draft(
        row.id, RecipientId(row.recipient_id), row.address, None, "", row.key, ItemStatus.QUEUED,
        None, None,
    )  # fmt: skip
    if letter is None:
        return known._replace(payload=msgspec.json.decode(row.payload))
    url = None
    if urls is not None and row.channel == Channel.EMAIL and row.address is not None:
        url = urls.url_of(lane.scope, Channel.EMAIL, row.address)
    return known._replace(
        subject=letter.subject,
        body=letter.body,
        enclosures=enclosures,
        unsubscribe_url=url,
        html=letter.html,
        patience=patience,
    )
