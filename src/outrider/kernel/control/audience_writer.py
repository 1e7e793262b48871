"""The audience writer: writes many recipients in windows, each in its own short transaction.

The windows form an intake, which is invisible until its last transaction commits. A failed intake
is removed at once; one whose process died is removed once it has expired.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import islice

import structlog

from outrider.domain import batches
from outrider.domain.address_census import AddressCensus
from outrider.domain.errors import StoreError
from outrider.domain.recipients import Recipient
from outrider.kernel.delivery.right_of_way import RightOfWay
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import audience, intakes
from outrider.kernel.transactions.intakes import Intake
from outrider.limits.campaigns import (
    CENSUS_ADDRESSES_MAX,
    DUPLICATES_FOUND_AT_ONCE,
    IMPORT_WINDOW_ITEMS,
    UPLOAD_CHUNK_RECORDS,
)
from outrider.ports.store import Transaction

log = structlog.get_logger()

Windows = AsyncIterator[Sequence[Recipient]]
CHUNKS_PER_WINDOW = IMPORT_WINDOW_ITEMS // UPLOAD_CHUNK_RECORDS


async def windows_of(recipients: Iterable[Recipient]) -> AsyncGenerator[list[Recipient], None]:
    """Read in a thread, because reading may be slow: the next window while the previous one is
    written. Only the last one is short."""
    stream = iter(recipients)

    def read() -> list[Recipient]:
        return list(islice(stream, IMPORT_WINDOW_ITEMS))

    reading = asyncio.ensure_future(asyncio.to_thread(read))
    try:
        while window := await reading:
            is_last = len(window) < IMPORT_WINDOW_ITEMS
            if not is_last:
                reading = asyncio.ensure_future(asyncio.to_thread(read))
            yield window
            if is_last:
                return
    finally:
        # Whoever reads on is not interrupted: the recipients may come from a file of the caller's.
        await asyncio.wait([reading])


async def chained(first: Sequence[Recipient], rest: Windows) -> Windows:
    yield first
    async for window in rest:
        yield window


class AudienceWriter:
    def __init__(self, foundation: Foundation, right_of_way: RightOfWay) -> None:
        self._right_of_way = right_of_way
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits

    @asynccontextmanager
    async def taking_in(self, begin: Transaction[Intake]) -> AsyncIterator[Intake]:
        """The intake that the script begins; if the block fails, nothing of it remains."""
        intake = await self._store.write(begin)
        try:
            yield intake
        except Exception:
            try:
                await self._store.write(intakes.abandon(intake))
                await self._remove(intake)
            except StoreError as error:
                log.warning("intake_left_to_its_expiry", error=error.message)
            raise

    def expiry(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self._limits.intake_lease_seconds)

    async def write(
        self,
        intake: Intake,
        windows: Windows,
        *,
        staged: bool,
        is_new: bool,
        progress: Callable[[int], None],
    ) -> int:
        """Returns where the audience ends. Staged recipients are kept as given, for their import
        phase."""
        position, chunk = intake.first_position, intake.first_chunk
        campaign_id = intake.campaign_id
        census = AddressCensus(CENSUS_ADDRESSES_MAX)
        async for window in windows:
            audience.require_room(position + len(window))
            if staged:
                script = audience.stage_window(campaign_id, chunk, position, window)
                chunk += CHUNKS_PER_WINDOW
                await self._write(intake, script)
                position += len(window)
            for part in () if staged else batches.windows(window, self._most_items()):
                script = audience.insert_window(campaign_id, position, part, is_new=is_new)
                await self._write(intake, script)
                position += len(part)
            progress(position)
            if is_new:
                census.take(window)
        if not staged and (not is_new or census.may_repeat):
            await self._mark_duplicates(intake)
        return position

    def _most_items(self) -> int:
        """Alongside single messages, a transaction is short."""
        if self._right_of_way.was_used_lately:
            return self._limits.beside_lanes_recipients
        return IMPORT_WINDOW_ITEMS

    async def clean(self) -> None:
        """The loop that removes intakes of processes that died; runs until cancelled."""
        while True:
            try:
                await self.take_away_expired()
            except StoreError as error:
                log.warning("intakes_not_cleaned", error=error.message)
            await self._clock.sleep(self._limits.intake_clean_seconds)

    async def take_away_expired(self) -> int:
        """Returns how many there were."""
        expired = await self._store.write(intakes.abandon_expired(self._clock.now()))
        for intake in expired:
            log.warning("intake_expired", campaign_id=intake.campaign_id)
            await self._remove(intake)
        return len(expired)

    async def _remove(self, intake: Intake) -> None:
        while await self._store.write(
            intakes.take_away(intake, IMPORT_WINDOW_ITEMS, CHUNKS_PER_WINDOW)
        ):
            pass

    async def _mark_duplicates(self, intake: Intake) -> None:
        """Searched outside the write transaction, so that no writer waits, and marked window by
        window."""
        most = DUPLICATES_FOUND_AT_ONCE
        while found := await self._store.read(audience.duplicates(intake.campaign_id, most)):
            for window in batches.windows(found, IMPORT_WINDOW_ITEMS):
                await self._write(intake, audience.set_duplicates(intake.campaign_id, window))
            if len(found) < most:
                return

    async def _write(self, intake: Intake, script: Transaction[None]) -> None:
        async with self._right_of_way.behind():
            await self._store.write(intakes.kept_while(script, intake, self.expiry()))
