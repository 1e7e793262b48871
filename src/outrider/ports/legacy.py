"""The legacy port: senders that predate rules, one per trigger, channel and audience.

A legacy sender composes; it never sends. Its messages go through the ledger like any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from outrider.domain.message_content import Attachment
from outrider.domain.workflows import DomainEvent, RecipientConfig, RoutePlace


@dataclass(frozen=True, slots=True)
class Composition:
    """A message's templates, recipients, attachments and private variables."""

    subject: str | None
    body: str
    recipients: RecipientConfig
    attachments: Sequence[Attachment] = ()
    variables: Mapping[str, object] | None = None


class LegacySender(Protocol):
    @property
    def name(self) -> str:
        """The template of its items, and its name in explanations: `proposal_email`."""
        ...

    @property
    def trigger(self) -> str: ...

    @property
    def place(self) -> RoutePlace: ...

    def compose(self, event: DomainEvent) -> Composition | str:
        """What to send, or the reason why nothing can be. It does no IO, and runs in a thread."""
        ...
