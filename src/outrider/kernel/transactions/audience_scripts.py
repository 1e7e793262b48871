"""Adding recipients to a campaign: in one transaction, or begun and closed around many short
ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from outrider.domain.campaigns import CampaignDefinition
from outrider.domain.errors import Conflict
from outrider.domain.ids import CampaignId, Scope
from outrider.domain.phases import AUDIENCE_IMPORT
from outrider.domain.recipients import Recipient
from outrider.domain.states import PhaseState
from outrider.kernel.transactions import audience, campaigns, intakes
from outrider.kernel.transactions.audience import unwatched
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.intakes import Intake
from outrider.kernel.transactions.steering import one_at_a_time
from outrider.ports.clock import Clock, IdSource
from outrider.ports.store import Transaction


@dataclass(frozen=True, slots=True)
class AudienceAnswer:
    """`recipients` came with the file. Staged ones wait for the campaign's audience_import."""

    recipients: int
    staged: bool


class Busy(Exception):
    """Another file is being added to the same campaign."""


class OpenAudience(NamedTuple):
    definition: CampaignDefinition
    size: int

    @property
    def is_staged(self) -> bool:
        return AUDIENCE_IMPORT in self.definition.phases


class AudienceScripts:
    """`expiry` is when an intake that begins now expires."""

    def __init__(self, expiry: Callable[[], datetime], clock: Clock, ids: IdSource) -> None:
        self._expiry = expiry
        self._clock = clock
        self._ids = ids

    def begin(self, scope: Scope, campaign_id: CampaignId) -> Transaction[Intake]:
        yield from self._locked_audience(scope, campaign_id)
        position = yield from audience.next_position(campaign_id)
        chunk, staged_position = yield from audience.upload_totals(campaign_id)
        intake = Intake(campaign_id, self._ids.new(), max(position, staged_position), chunk)
        if not (yield from intakes.begin(intake, self._expiry())):
            raise Busy
        return intake

    def at_once(
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

    def closed(
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

    def _locked_audience(self, scope: Scope, campaign_id: CampaignId) -> Transaction[OpenAudience]:
        """Locked: no other process adds recipients or starts a phase."""
        yield from campaigns.campaign(scope, campaign_id)
        yield from one_at_a_time(campaign_id)
        # Read again: recipients may have been added while this waited for the lock.
        found = yield from self.open_audience(scope, campaign_id)
        if (yield from intakes.is_under_way(campaign_id)):
            raise Busy
        return found

    def open_audience(self, scope: Scope, campaign_id: CampaignId) -> Transaction[OpenAudience]:
        stored = yield from campaigns.campaign(scope, campaign_id)
        found = OpenAudience(campaigns.read_definition(stored.definition), stored.audience_size)
        for phase in (yield from campaigns.phases_of(campaign_id)):
            # Any phase that has begun has counted the audience, or sent to it.
            closes = phase.phase == AUDIENCE_IMPORT or not found.is_staged
            if closes and phase.state != PhaseState.NOT_STARTED:
                raise Conflict(
                    f"the audience is closed: the phase '{phase.phase}' is {phase.state}",
                    hint="create another campaign for additional recipients",
                )
        return found
