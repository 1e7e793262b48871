"""What a bundle has beside chains and seals: contracts, templates and verdicts."""

import hashlib
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import RunId
from outrider.kernel.transactions.seals import EndedRun, ended
from outrider.ports.store import Transaction, ask_alone


class UsedContract(NamedTuple):
    id: int
    sha256: str
    submission_target: str
    document: str


class UsedTemplate(NamedTuple):
    id: str
    version: int
    message_id: str
    channel: str
    subject: str | None
    body: str
    script_version: str | None

    def sha256(self) -> str:
        """Of subject, body and script version: the bundle proves which text it was without it."""
        text = "\0".join((self.subject or "", self.body, self.script_version or ""))
        return hashlib.sha256(text.encode()).hexdigest()


class GivenVerdict(NamedTuple):
    id: str
    outbox_id: str
    doubted_at: datetime
    verdict: str
    kind: str
    source: str
    provider_message_id: str | None
    given_at: datetime


def contracts_of(run_id: RunId) -> Transaction[list[UsedContract]]:
    rows = yield from ask_alone("evidence_contracts", run_id=run_id)
    return [UsedContract(*row) for row in rows]


def templates_of(run_id: RunId) -> Transaction[list[UsedTemplate]]:
    rows = yield from ask_alone("evidence_templates", run_id=run_id)
    return [UsedTemplate(*row) for row in rows]


def verdicts_after(run_id: RunId, after: str, most: int) -> Transaction[list[GivenVerdict]]:
    rows = yield from ask_alone("evidence_verdicts", run_id=run_id, after=after, most=most)
    return [GivenVerdict(*row) for row in rows]


def ended_run(run_id: RunId) -> Transaction[EndedRun | None]:
    return ended((yield from ask_alone("ended_run", run_id=run_id)))
