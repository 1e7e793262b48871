"""One person's story on the wire, and what a search finds."""

from datetime import datetime

import msgspec
from pydantic import Field

from outrider.api.models.admin import SuppressionAnswer
from outrider.api.models.common import Answer
from outrider.api.models.domain_events import EventAnswer
from outrider.api.models.items import ItemLine, item_fields
from outrider.api.models.receipts import ReceiptAnswer
from outrider.domain.people import PersonKind
from outrider.kernel.proof.person_eraser import Erased
from outrider.kernel.transactions.person_stories import Story, Trace, TraceKind
from outrider.kernel.transactions.searching import Hit, HitKind
from outrider.kernel.workflows.event_documents import event_document


class PersonItem(ItemLine):
    campaign_id: str | None
    campaign_name: str | None


class PersonEntry(Answer):
    """Exactly one of `item`, `event`, `receipt` and `suppression` is set, as `kind` says."""

    kind: TraceKind
    at: datetime
    item: PersonItem | None = None
    event: EventAnswer | None = None
    receipt: ReceiptAnswer | None = None
    suppression: SuppressionAnswer | None = None

    @classmethod
    def of(cls, trace: Trace) -> "PersonEntry":
        return cls(
            kind=TraceKind(trace.position.kind),
            at=trace.at,
            item=_item(trace),
            event=_event(trace),
            receipt=ReceiptAnswer.of(trace.receipt) if trace.receipt else None,
            suppression=SuppressionAnswer.of(trace.suppression) if trace.suppression else None,
        )


class PersonAddress(Answer):
    kind: PersonKind
    address: str


class PersonAnswer(Answer):
    address: str = Field(description="Normalised, as it is stored.")
    kind: PersonKind
    recipient_ids: list[str] = Field(description="In the audiences that have this address.")
    addresses: list[PersonAddress] = Field(
        description="Other addresses of the same recipients; each has its own history."
    )
    total: int = Field(description="How many entries there are, over all pages.")
    complete: bool = Field(description="False if there is more than can be shown for one person.")
    items: list[PersonEntry]
    next: str | None = Field(description="The `after` of the next page; null on the last page.")

    @classmethod
    def of(cls, story: Story, following: str | None) -> "PersonAnswer":
        return cls(
            address=story.address,
            kind=story.kind,
            recipient_ids=story.recipient_ids,
            addresses=[
                PersonAddress(kind=each.kind, address=each.text) for each in story.addresses
            ],
            total=story.total,
            complete=story.complete,
            items=[PersonEntry.of(each) for each in story.traces],
            next=following,
        )


class HitAnswer(Answer):
    kind: HitKind
    id: str = Field(description="The ID to request it by: a person's address, an event's own ID.")
    title: str
    detail: str | None
    at: datetime | None

    @classmethod
    def of(cls, hit: Hit) -> "HitAnswer":
        return cls(**hit._asdict())


class SearchAnswer(Answer):
    query: str
    items: list[HitAnswer]


def _item(trace: Trace) -> PersonItem | None:
    if trace.item is None:
        return None
    return PersonItem(
        **item_fields(trace.item),
        campaign_id=trace.campaign.campaign_id if trace.campaign else None,
        campaign_name=trace.campaign.name if trace.campaign else None,
    )


def _event(trace: Trace) -> EventAnswer | None:
    if trace.event is None:
        return None
    return EventAnswer.model_validate_json(msgspec.json.encode(event_document(trace.event)))


class KnownAddress(Answer):
    kind: PersonKind
    address: str


class ErasedTable(Answer):
    table: str
    rows: int


class ErasedArtifact(Answer):
    artifact_id: str
    run_id: str
    name: str


class ErasureAnswer(Answer):
    """What was erased, or would be. Unless `complete`, something has to be waited for."""

    erasure_id: str
    dry_run: bool
    complete: bool
    addresses: list[KnownAddress]
    tables: list[ErasedTable]
    artifacts: list[ErasedArtifact]
    waiting: int = Field(
        description="Messages that are being sent or in doubt, and messages and events that still"
        " have to tell others of the person."
    )
    jobs: int = Field(description="Jobs that have read the person's addresses and are not done.")
    rules: list[str] = Field(
        description="Workflow rules that name the person as a custom recipient."
    )
    rewritten: bool = Field(
        description="Whether nothing is left in the database's files, as far as the store can say."
    )

    @classmethod
    def of(cls, done: Erased, *, dry_run: bool) -> "ErasureAnswer":
        return cls(
            erasure_id=done.id,
            dry_run=dry_run,
            complete=done.is_complete,
            addresses=[KnownAddress(kind=each.kind, address=each.text) for each in done.addresses],
            tables=[
                ErasedTable(table=table, rows=rows)
                for table, rows in sorted(done.rows.items())
                if rows
            ],
            artifacts=[
                ErasedArtifact(artifact_id=each.artifact_id, run_id=each.run_id, name=each.name)
                for each in done.files
            ],
            waiting=done.waiting,
            jobs=done.jobs,
            rules=done.rules,
            rewritten=done.is_rewritten,
        )
