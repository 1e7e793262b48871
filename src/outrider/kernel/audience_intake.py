"""The audience intake: more recipients for a campaign that has not been launched.

A file goes in; with an audience_import ahead its recipients wait for that phase, else they are
part of the audience at once. All of the file, or nothing and every mistake in it.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from outrider.domain.errors import Conflict
from outrider.domain.ids import CampaignId, Scope
from outrider.domain.phases import AUDIENCE_IMPORT
from outrider.domain.recipients import Recipient
from outrider.domain.states import PhaseState
from outrider.kernel.campaign_deployer import unwatched
from outrider.kernel.transactions import audience, campaigns
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.ports.clock import Clock, IdSource
from outrider.ports.store import Store, Transaction, ask

ReadFile = Callable[[Path, Collection[str]], Iterable[Recipient]]
"""A CSV or NDJSON file, by its suffix, as recipients; raises InvalidInput with all mistakes."""


@dataclass(frozen=True, slots=True)
class AudienceAnswer:
    """`recipients` came with the file. Staged: they wait for the campaign's audience_import."""

    recipients: int
    staged: bool


class AudienceIntake:
    def __init__(self, store: Store, clock: Clock, ids: IdSource, read_file: ReadFile) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._read_file = read_file

    async def add(
        self, scope: Scope, campaign_id: CampaignId, path: Path, actor: str
    ) -> AudienceAnswer:
        return await self._store.write(self._add(scope, campaign_id, path, actor))

    def _add(
        self, scope: Scope, campaign_id: CampaignId, path: Path, actor: str
    ) -> Transaction[AudienceAnswer]:
        yield from campaigns.campaign(scope, campaign_id)
        yield from ask("serialise_controls", campaign_id=campaign_id)
        # Read again: somebody may have added recipients while this waited for its turn.
        found = yield from campaigns.campaign(scope, campaign_id)
        definition = campaigns.read_definition(found.definition)
        staged = AUDIENCE_IMPORT in definition.phases
        for phase in (yield from campaigns.phases_of(campaign_id)):
            # Whatever has begun has counted the audience, or sent to it.
            closes = phase.phase == AUDIENCE_IMPORT or not staged
            if closes and phase.state != PhaseState.NOT_STARTED:
                raise Conflict(
                    f"the audience is closed: the phase '{phase.phase}' is {phase.state}",
                    hint="create another campaign for more recipients",
                )
        recipients = self._read_file(path, {message.id for message in definition.messages})
        if staged:
            came = yield from audience.stage(campaign_id, recipients, unwatched)
        else:
            size = yield from audience.insert(campaign_id, recipients, unwatched)
            came = size - found.audience_size
        detail: dict[str, object] = {"recipients": came, "staged": staged}
        entry = AuditEntry(scope, "audience.added", actor, campaign_id, detail=detail)
        yield from record([entry], self._ids, self._clock.now())
        return AudienceAnswer(came, staged)
