"""The lane opener: opens the attempts of due messages, window by window, and has them called.

A message goes with its attached files and its unsubscribe link; without its files it waits, or
fails if they cannot be read at all.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec
import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import RecipientId
from outrider.domain.message_content import Enclosure
from outrider.domain.retry import Patience
from outrider.domain.sending_hours import Wait
from outrider.domain.states import Channel, ItemStatus
from outrider.domain.unsubscribe import UnsubscribeUrls
from outrider.kernel.access.unsubscriber import Unsubscriber
from outrider.kernel.delivery.attachment_reader import EnclosureReader
from outrider.kernel.delivery.capped_lanes import capped_window
from outrider.kernel.delivery.domain_shaper import DomainShaper
from outrider.kernel.delivery.gateway_caller import GatewayCaller
from outrider.kernel.delivery.gateway_routes import Route
from outrider.kernel.delivery.lane_backlog import Backlog, Due
from outrider.kernel.delivery.reservations import OpenAttempt, Reserver
from outrider.kernel.delivery.screener import Screener
from outrider.kernel.delivery.screens import INVALID_PAYLOAD
from outrider.kernel.delivery.shaped_sources import Shaping
from outrider.kernel.delivery.window_outcomes import WindowOutcome
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import domain_doors, ledger
from outrider.kernel.transactions.claims import ClaimedLane
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.reserving import Draft
from outrider.kernel.transactions.screening import Deferral, Ending, HeldBack
from outrider.ports.stages import Stage, StageObserver

log = structlog.get_logger()

ENCLOSURES = "enclosures"


class LaneOpener:
    def __init__(
        self,
        foundation: Foundation,
        screener: Screener,
        enclosures: EnclosureReader,
        unsubscriber: Unsubscriber,
        reserver: Reserver,
        caller: GatewayCaller,
        shaper: DomainShaper,
        observer: StageObserver,
    ) -> None:
        self._store = foundation.store
        self._screener = screener
        self._enclosures = enclosures
        self._unsubscriber = unsubscriber
        self._reserver = reserver
        self._caller = caller
        self._shaper = shaper
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._observer = observer

    async def deliver(self, lane: ClaimedLane, route: Route, source: Backlog) -> WindowOutcome:
        urls = await self._unsubscriber.urls()

        async def open_window(window: Sequence[Due]) -> list[OpenAttempt] | Hold:
            opened = await self._open(lane, route, window, urls)
            going = set() if isinstance(opened, Hold) else {each.outbox_id for each in opened}
            for each in window:
                if each.row.id not in going:
                    source.ended(each.row.id)
            source.opened()
            self._caller.right_of_way.leave(each.row.id for each in window)
            return opened

        def when_ended(attempt: OpenAttempt) -> None:
            source.ended(attempt.outbox_id)

        return await self._shaper.call(
            self._caller, lane, route, source, open_window, self._shaping(lane, source), when_ended
        )

    def _shaping(self, lane: ClaimedLane, source: Backlog) -> Shaping[Due]:
        def leave(left: Iterable[Due]) -> None:
            ids = [each.row.id for each in left]
            for each in ids:
                source.ended(each)
            self._caller.right_of_way.leave(ids)

        async def set_aside(aside: Sequence[tuple[Due, Wait]]) -> None:
            waits = {due.row.id: wait for due, wait in aside}
            now = self._clock.now()
            lease = timedelta(seconds=self._limits.lease_seconds)
            await self._store.write(domain_doors.set_aside(lane, waits, now + lease, now))
            leave(due for due, _ in aside)

        return Shaping(_shaped_address, set_aside, leave, comes_together=False, is_heavy=_encloses)

    async def _open(
        self,
        lane: ClaimedLane,
        route: Route,
        window: Sequence[Due],
        urls: UnsubscribeUrls | None,
    ) -> list[OpenAttempt] | Hold:
        drafts = {}
        held_back = HeldBack([], [], [])
        policies = await self._screener.policies(lane)
        patience = policies.retry.patience
        for each in window:
            enclosures = await self._enclosed(lane, each, held_back)
            if enclosures is not None:
                drafts[each.row.id] = _draft(lane, each, enclosures, urls, patience), each.contract
        if any(held_back):
            held = await self._screener.hold_back(lane, held_back)
            if held is not Hold.OURS:
                return held
        capped = capped_window(policies, [each.row for each in window if each.row.id in drafts])
        self._observer.before(Stage.OPEN)
        if any(each.row.is_open for each in window):
            opened = await self._reserver.reopen(lane, route, drafts, abandoned=True, capped=capped)
        else:
            opened = await self._reserver.open_due(lane, route, drafts, capped)
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


def _shaped_address(due: Due) -> str | None:
    """What may have arrived is asked about whatever its domain says."""
    return None if due.row.is_open or due.row.maybe_received else due.row.address


def _encloses(due: Due) -> bool:
    return due.content is not None and bool(due.content.attachments)


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
