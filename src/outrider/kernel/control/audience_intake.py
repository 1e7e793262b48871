"""The audience intake: more recipients for a campaign that has not been launched.

A file goes in; with an audience_import ahead its recipients wait for that phase, else they are
part of the audience at once. All of the file, or nothing and every mistake in it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from outrider.domain.campaigns import CampaignDefinition
from outrider.domain.errors import Conflict, Overloaded
from outrider.domain.ids import CampaignId, Scope
from outrider.domain.phases import AUDIENCE_IMPORT
from outrider.domain.recipients import Recipient
from outrider.domain.states import PhaseState
from outrider.kernel.control.audience_writer import AudienceWriter, chained, windows_of
from outrider.kernel.control.campaign_deployer import unwatched
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import audience, campaigns, intakes
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.intakes import Intake
from outrider.limits.api import TURNS_RETRY_SECONDS
from outrider.limits.campaigns import AUDIENCE_AT_ONCE_MAX, IMPORT_WINDOW_ITEMS
from outrider.ports.store import Transaction, ask

Done = TypeVar("Done")

ReadFile = Callable[
    [Scope, Path, Collection[str]], AbstractAsyncContextManager[Iterable[Recipient]]
]
"""A CSV or NDJSON file, by its suffix, as recipients; raises InvalidInput with all mistakes."""


@dataclass(frozen=True, slots=True)
class AudienceAnswer:
    """`recipients` came with the file. Staged: they wait for the campaign's audience_import."""

    recipients: int
    staged: bool


class _Busy(Exception):
    """Another file of the same campaign is being taken in."""


class _OpenAudience(NamedTuple):
    definition: CampaignDefinition
    size: int

    @property
    def is_staged(self) -> bool:
        return AUDIENCE_IMPORT in self.definition.phases


class AudienceIntake:
    def __init__(self, foundation: Foundation, writer: AudienceWriter, read_file: ReadFile) -> None:
        self._store = foundation.store
        self._writer = writer
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._read_file = read_file

    async def add(
        self, scope: Scope, campaign_id: CampaignId, path: Path, actor: str
    ) -> AudienceAnswer:
        # Before a gigabyte is read for an audience that is closed.
        found = await self._store.read(self._open_audience(scope, campaign_id))
        message_ids = {message.id for message in found.definition.messages}
        async with (
            self._read_file(scope, path, message_ids) as recipients,
            aclosing(windows_of(recipients)) as windows,
        ):
            first: list[Recipient] = await anext(windows, [])
            is_small = len(first) < IMPORT_WINDOW_ITEMS and found.size <= AUDIENCE_AT_ONCE_MAX
            if is_small or not first:
                return await self._when_free(
                    lambda: self._store.write(self._at_once(scope, campaign_id, first, actor))
                )
            async with AsyncExitStack() as stack:
                intake = await self._when_free(
                    lambda: stack.enter_async_context(
                        self._writer.taking_in(self._begin(scope, campaign_id))
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
        found = await self._store.read(self._open_audience(scope, campaign_id))
        end = await self._writer.write(
            intake, windows, staged=found.is_staged, is_new=False, progress=unwatched
        )
        if found.is_staged:
            answer, size = AudienceAnswer(end - intake.first_position, staged=True), None
        else:
            size = await self._store.read(audience.size(campaign_id))
            answer = AudienceAnswer(size - found.size, staged=False)
        await self._store.write(self._closed(scope, intake, size, answer, actor))
        return answer

    async def _when_free(self, work: Callable[[], Awaitable[Done]]) -> Done:
        """Files of one campaign are taken in one after the other."""
        waited = 0.0
        while True:
            try:
                return await work()
            except _Busy:
                if waited >= self._limits.intake_wait_seconds:
                    raise Overloaded(
                        "other recipients are being added to this campaign", TURNS_RETRY_SECONDS
                    ) from None
            await self._clock.sleep(self._limits.intake_poll_seconds)
            waited += self._limits.intake_poll_seconds

    def _begin(self, scope: Scope, campaign_id: CampaignId) -> Transaction[Intake]:
        yield from self._locked_audience(scope, campaign_id)
        position = yield from audience.next_position(campaign_id)
        chunk, staged_position = (yield from ask("upload_totals", campaign_id=campaign_id))[0]
        intake = Intake(campaign_id, self._ids.new(), max(position, staged_position), chunk)
        if not (yield from intakes.begin(intake, self._writer.expiry())):
            raise _Busy
        return intake

    def _at_once(
        self, scope: Scope, campaign_id: CampaignId, recipients: Sequence[Recipient], actor: str
    ) -> Transaction[AudienceAnswer]:
        found = yield from self._locked_audience(scope, campaign_id)
        if found.is_staged:
            came = yield from audience.stage(campaign_id, recipients, unwatched)
        else:
            size = yield from audience.insert(campaign_id, recipients, unwatched)
            came = size - found.size
        answer = AudienceAnswer(came, found.is_staged)
        yield from self._record(scope, campaign_id, answer, actor)
        return answer

    def _closed(
        self,
        scope: Scope,
        intake: Intake,
        size: int | None,
        answer: AudienceAnswer,
        actor: str,
    ) -> Transaction[None]:
        yield from intakes.close(intake)
        if size is not None:
            yield from audience.set_size(intake.campaign_id, size)
        yield from self._record(scope, intake.campaign_id, answer, actor)

    def _record(
        self, scope: Scope, campaign_id: CampaignId, answer: AudienceAnswer, actor: str
    ) -> Transaction[None]:
        detail: dict[str, object] = {"recipients": answer.recipients, "staged": answer.staged}
        entry = AuditEntry(scope, "audience.added", actor, campaign_id, detail=detail)
        yield from record([entry], self._ids, self._clock.now())

    def _locked_audience(self, scope: Scope, campaign_id: CampaignId) -> Transaction[_OpenAudience]:
        """As it is while nobody else adds to it, or begins a phase."""
        yield from campaigns.campaign(scope, campaign_id)
        yield from ask("serialise_controls", campaign_id=campaign_id)
        # Read again: somebody may have added recipients while this waited for its turn.
        found = yield from self._open_audience(scope, campaign_id)
        if (yield from intakes.is_under_way(campaign_id)):
            raise _Busy
        return found

    def _open_audience(self, scope: Scope, campaign_id: CampaignId) -> Transaction[_OpenAudience]:
        stored = yield from campaigns.campaign(scope, campaign_id)
        found = _OpenAudience(campaigns.read_definition(stored.definition), stored.audience_size)
        for phase in (yield from campaigns.phases_of(campaign_id)):
            # Whatever has begun has counted the audience, or sent to it.
            closes = phase.phase == AUDIENCE_IMPORT or not found.is_staged
            if closes and phase.state != PhaseState.NOT_STARTED:
                raise Conflict(
                    f"the audience is closed: the phase '{phase.phase}' is {phase.state}",
                    hint="create another campaign for more recipients",
                )
        return found
