"""What is read and proven after the fact: certificates, explanations, previews, run histories."""

import os
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from outrider.bootstrap.access import AccessRoles
from outrider.bootstrap.contracts import ContractRoles
from outrider.bootstrap.storage import StorageRoles
from outrider.kernel.proof.bundle_verifier import BundleVerifier
from outrider.kernel.proof.database_verifier import DatabaseVerifier
from outrider.kernel.proof.evidence_writer import EvidenceWriter
from outrider.kernel.proof.file_eraser import FileEraser
from outrider.kernel.proof.message_retirer import MessageRetirer
from outrider.kernel.proof.person_eraser import PersonEraser
from outrider.kernel.proof.retention_keeper import RetentionKeeper
from outrider.kernel.proof.run_retirer import RunRetirer
from outrider.kernel.proof.run_sealer import RunSealer
from outrider.kernel.proof.seal_verifier import SealVerifier
from outrider.kernel.reports.certifier import Certifier
from outrider.kernel.reports.person_reader import PersonReader
from outrider.kernel.reports.previewer import Previewer
from outrider.kernel.reports.searcher import Searcher
from outrider.kernel.runs.projector import Projector
from outrider.kernel.runs.run_reader import RunReader
from outrider.kernel.streams.campaign_event_hub import EventHub
from outrider.secrets.store import load_secrets

if TYPE_CHECKING:
    from outrider.secrets.signing import EvidenceKey


class ReportRoles(ContractRoles, AccessRoles, StorageRoles):
    @cached_property
    def certifier(self) -> Certifier:
        return Certifier(self.foundation, self.reference_memory)

    @cached_property
    def evidence_key(self) -> "EvidenceKey":
        from outrider.secrets.signing import EvidenceKey

        return EvidenceKey(self.settings.evidence_key, load_secrets(), self.settings.spool)

    @cached_property
    def run_sealer(self) -> RunSealer:
        return RunSealer(self.foundation, self.evidence_key, os.urandom)

    @cached_property
    def evidence_writer(self) -> EvidenceWriter:
        return EvidenceWriter(
            self.foundation, self.certifier, self.run_sealer, self.evidence_key, self.artifacts
        )

    @cached_property
    def run_retirer(self) -> RunRetirer:
        from outrider.secrets.signing import is_signed

        return RunRetirer(
            self.foundation, self.evidence_writer, self.artifacts, is_signed, self._key_memory
        )

    @property
    def _key_memory(self) -> timedelta:
        return timedelta(days=self.settings.retention.memory_days)

    @cached_property
    def message_retirer(self) -> MessageRetirer:
        return MessageRetirer(self.foundation, self._key_memory)

    @cached_property
    def retention_keeper(self) -> RetentionKeeper:
        days = self.settings.retention.after_days
        after = None if days is None else timedelta(days=days)
        return RetentionKeeper(
            self.foundation, self.run_retirer, self.message_retirer, after, self.person_eraser
        )

    @cached_property
    def person_eraser(self) -> PersonEraser:
        files = FileEraser(self.foundation, self.artifacts)
        return PersonEraser(self.foundation, files, os.urandom)

    @cached_property
    def database_verifier(self) -> DatabaseVerifier:
        from outrider.secrets.signing import is_signed

        seal_verifier = SealVerifier(self.foundation, self.evidence_key, is_signed)
        bundles = BundleVerifier(is_signed)
        return DatabaseVerifier(self.foundation, seal_verifier, bundles, self.artifacts)

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
