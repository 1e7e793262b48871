"""The audience intake: adds recipients from a file to a campaign that has not been launched.

If an audience_import phase is still ahead the recipients wait for it, otherwise they join the
audience at once. The whole file is taken, or nothing is and every mistake is reported.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from pathlib import Path
from typing import TypeVar

from outrider.domain.errors import Overloaded
from outrider.domain.ids import CampaignId, Scope
from outrider.domain.recipients import Recipient
from outrider.kernel.control.audience_writer import AudienceWriter, chained, windows_of
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import audience
from outrider.kernel.transactions.audience import unwatched
from outrider.kernel.transactions.audience_scripts import AudienceAnswer, AudienceScripts, Busy
from outrider.kernel.transactions.intakes import Intake
from outrider.limits.api import TURNS_RETRY_SECONDS
from outrider.limits.campaigns import AUDIENCE_AT_ONCE_MAX, IMPORT_WINDOW_ITEMS

Done = TypeVar("Done")

ReadFile = Callable[
    [Scope, Path, Collection[str]], AbstractAsyncContextManager[Iterable[Recipient]]
]
"""A CSV or NDJSON file, by its suffix, as recipients; raises InvalidInput with all mistakes."""


class AudienceIntake:
    def __init__(self, foundation: Foundation, writer: AudienceWriter, read_file: ReadFile) -> None:
        self._store = foundation.store
        self._writer = writer
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._scripts = AudienceScripts(writer.expiry, foundation.clock, foundation.ids)
        self._read_file = read_file

    async def add(
        self, scope: Scope, campaign_id: CampaignId, path: Path, actor: str
    ) -> AudienceAnswer:
        # Check before reading a gigabyte for an audience that is closed.
        found = await self._store.read(self._scripts.open_audience(scope, campaign_id))
        message_ids = {message.id for message in found.definition.messages}
        async with (
            self._read_file(scope, path, message_ids) as recipients,
            aclosing(windows_of(recipients)) as windows,
        ):
            first: list[Recipient] = await anext(windows, [])
            is_small = len(first) < IMPORT_WINDOW_ITEMS and found.size <= AUDIENCE_AT_ONCE_MAX
            if is_small or not first:
                return await self._when_free(
                    lambda: self._store.write(
                        self._scripts.at_once(scope, campaign_id, first, actor)
                    )
                )
            async with AsyncExitStack() as stack:
                intake = await self._when_free(
                    lambda: stack.enter_async_context(
                        self._writer.taking_in(self._scripts.begin(scope, campaign_id))
                    )
                )
                return await self._in_windows(scope, intake, chained(first, windows), actor)

    async def _in_windows(
        self,
        scope: Scope,
        intake: Intake,
        windows: AsyncIterator[Sequence[Recipient]],
        actor: str,
    ) -> AudienceAnswer:
        campaign_id = intake.campaign_id
        found = await self._store.read(self._scripts.open_audience(scope, campaign_id))
        end = await self._writer.write(
            intake, windows, staged=found.is_staged, is_new=False, progress=unwatched
        )
        if found.is_staged:
            answer, size = AudienceAnswer(end - intake.first_position, staged=True), None
        else:
            size = await self._store.read(audience.size(campaign_id))
            answer = AudienceAnswer(size - found.size, staged=False)
        await self._store.write(self._scripts.closed(scope, intake, size, answer, actor))
        return answer

    async def _when_free(self, work: Callable[[], Awaitable[Done]]) -> Done:
        """Files of one campaign are processed one at a time."""
        waited = 0.0
        while True:
            try:
                return await work()
            except Busy:
                if waited >= self._limits.intake_wait_seconds:
                    raise Overloaded(
                        "other recipients are being added to this campaign", TURNS_RETRY_SECONDS
                    ) from None
            await self._clock.sleep(self._limits.intake_poll_seconds)
            waited += self._limits.intake_poll_seconds
