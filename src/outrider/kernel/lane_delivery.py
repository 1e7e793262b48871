"""Lane delivery: the single messages of one submission target, as they fall due.

A lane is a standing job: its fence tells whose open attempts are whose, its lease brings it back
when a worker dies. Rendering and reserving happened when the message was submitted; what followed
from a domain event is screened before every attempt, because the hour and the recipient's wishes
may have changed since.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import OutboxId, RecipientId
from outrider.domain.letters import Enclosure, Letter
from outrider.domain.retry import WORKFLOW_PATIENCE
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

    async def process(self, lane: ClaimedLane) -> LeaseLost | None:
        """Deliver what is due, for a bounded number of rounds, then give the lane back."""
        not_before: datetime | None = None
        for _ in range(self._limits.lane_rounds):
            with observed(self._observer, Stage.LOAD):
                rows = await self._load(lane)
            if not rows:
                break
            with observed(self._observer, Stage.SCREEN):
                due = await self._screened(lane, rows)
            passage = due if isinstance(due, Lost | Suspended) else await self._deliver(lane, due)
            if isinstance(passage, Lost):
                return LeaseLost()
            if isinstance(passage, Suspended):
                break
            if isinstance(passage, Deferred):
                not_before = passage.until
                break
        now = self._clock.now()
        with observed(self._observer, Stage.SETTLE):
            ours = await self._store.write(submissions.release(lane, not_before or now, now))
        return None if ours else LeaseLost()

    async def _load(self, lane: ClaimedLane) -> list[DueItem]:
        now = self._clock.now()
        horizon = now + timedelta(seconds=self._limits.lease_seconds)
        return await self._store.read(
            submissions.due(lane, self._limits.lane_window_items, horizon, now)
        )

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
        due: list[Due] = []
        lost: list[OutboxId] = []
        for row in rows:
            if row.id in held:
                continue
            letter = readable(row.payload) if row.origin == WORKFLOW else None
            if isinstance(letter, str) or _worn_out(row):
                # It may have arrived, and there is no way, or no more patience, to ask again.
                lost.append(row.id)
                continue
            due.append(Due(row, await self._shelf.by_id(row.contract_id), letter))
        if lost:
            await self._store.write(ledger.doubt(lane, lost, self._clock.now()))
            log.warning("items_in_doubt", job_id=lane.id, items=len(lost), why="worker_lost")
        return due

    async def _deliver(self, lane: ClaimedLane, due: Sequence[Due]) -> Passage:
        """Every route gets its turn: one that takes no more does not hold up the others."""
        deferred, progressed = None, False
        urls = await self._unsubscriber.urls()
        for route, group in await self._routed(lane, due):

            async def open_window(
                window: Sequence[Due], route: Route = route
            ) -> list[OpenAttempt] | Hold:
                return await self._open(lane, route, window, urls)

            for part in _parts(group, self._limits.enclosing_items):
                passage = await self._caller.in_windows(route, part, open_window)
                if isinstance(passage, Lost | Suspended):
                    return passage
                progressed = progressed or isinstance(passage, Done)
                deferred = earliest(deferred, passage)
        if deferred is not None and progressed:
            # What comes in meanwhile for the open routes must not wait for the closed one.
            soon = self._clock.now() + timedelta(seconds=self._limits.gate_patience_seconds)
            return Deferred(min(deferred.until, soon))
        return deferred or Done()

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
        for each in window:
            enclosures = await self._enclosed(lane, each, held_back)
            if enclosures is not None:
                drafts[each.row.id] = _draft(lane, each, enclosures, urls), each.contract
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
            held_back.deferred.append(Deferral(row.id, until, ENCLOSURES))
        else:
            held_back.failed.append(Ending(row.id, INVALID_PAYLOAD, enclosures))
        return None


def _worn_out(row: DueItem) -> bool:
    """Opened as often as it may be, and abandoned each time: it is not to kill one more worker."""
    most = WORKFLOW_PATIENCE.most_attempts
    return row.origin == WORKFLOW and row.is_open and row.attempts >= most


def _parts(group: Sequence[Due], enclosing_items: int) -> list[list[Due]]:
    """Messages with files a few at a time: all of a window's files are in memory at once."""
    plain = [each for each in group if not (each.letter and each.letter.attachments)]
    enclosing = [each for each in group if each.letter and each.letter.attachments]
    parts = [plain] if plain else []
    return parts + [
        enclosing[start : start + enclosing_items]
        for start in range(0, len(enclosing), enclosing_items)
    ]


def _draft(
    lane: ClaimedLane, due: Due, enclosures: Sequence[Enclosure], urls: UnsubscribeUrls | None
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
        patience=WORKFLOW_PATIENCE,
    )
