"""What is read and proven after the fact: certificates, explanations, previews, run histories."""

from functools import cached_property

from outrider.bootstrap.access import AccessRoles
from outrider.bootstrap.contracts import ContractRoles
from outrider.kernel.proof.database_verifier import DatabaseVerifier
from outrider.kernel.reports.certifier import Certifier
from outrider.kernel.reports.person_reader import PersonReader
from outrider.kernel.reports.previewer import Previewer
from outrider.kernel.reports.searcher import Searcher
from outrider.kernel.runs.projector import Projector
from outrider.kernel.runs.run_reader import RunReader
from outrider.kernel.streams.campaign_event_hub import EventHub


class ReportRoles(ContractRoles, AccessRoles):
    @cached_property
    def certifier(self) -> Certifier:
        return Certifier(self.foundation, self.reference_memory)

    @cached_property
    def database_verifier(self) -> DatabaseVerifier:
        return DatabaseVerifier(self.foundation)

    @cached_property
    def previewer(self) -> Previewer:
        from outrider.rendering.variables import variables_of

        return Previewer(self.store, self.preview_renderer, self.unsubscriber, variables_of)

    @cached_property
    def person_reader(self) -> PersonReader:
        return PersonReader(self.store)

    @cached_property
    def searcher(self) -> Searcher:
        return Searcher(self.store)

    @cached_property
    def run_reader(self) -> RunReader:
        return RunReader(self.store, self.limits)

    @cached_property
    def projector(self) -> Projector:
        return Projector(self.foundation)

    @cached_property
    def hub(self) -> EventHub:
        return EventHub(self.store, self.limits)
