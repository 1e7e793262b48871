"""The gateway port: the only way to call a provider, and it requires a reservation.

`Reservation` is abstract and its only concrete kind is private to the kernel's reserve stage, so a
provider call without a durable ledger row does not type-check.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from outrider.domain.call_results import CallResult
from outrider.domain.evidence import LookedUp, LookUp, TargetEvidence
from outrider.domain.ids import IdempotencyKey, OutboxId
from outrider.domain.mailbox import USUAL_HEAD, MailHead
from outrider.domain.message_content import Enclosure
from outrider.domain.reference_memory import ReferenceMemory
from outrider.domain.submission import GatewayType
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName


class Reservation(ABC):
    """Proof that the ledger holds an open attempt for this item, and what the provider needs."""

    __slots__ = ()

    @property
    @abstractmethod
    def outbox_id(self) -> OutboxId: ...

    @property
    @abstractmethod
    def reference(self) -> IdempotencyKey:
        """The item's idempotency key; the same on every attempt."""

    @abstractmethod
    def begin(self) -> bool:
        """Called immediately before the first byte that could make the provider act: nothing may be
        awaited between the answer and that byte. False: the call must no longer be made, and its
        result is `NotBegun`."""

    @property
    @abstractmethod
    def address(self) -> str: ...

    @property
    @abstractmethod
    def subject(self) -> str | None: ...

    @property
    @abstractmethod
    def body(self) -> str: ...

    @property
    @abstractmethod
    def payload(self) -> Mapping[str, Any] | None:
        """A direct intent's opaque payload, unchanged; None for content rendered here."""

    @property
    def payload_text(self) -> str | None:
        """The payload exactly as its client serialised it, if known."""
        return None

    @property
    def is_html(self) -> bool:
        """Whether its body was written, and escaped, as HTML."""
        return False

    @property
    def enclosures(self) -> Sequence[Enclosure]:
        """Files attached to the message."""
        return ()

    @property
    def head(self) -> MailHead:
        """Whom a mail is from, where its campaign says so."""
        return USUAL_HEAD

    @property
    def unsubscribe_url(self) -> str | None:
        """The recipient's one-click unsubscribe URL."""
        return None


@dataclass(frozen=True, slots=True)
class LookUpQuestion:
    """What a provider is asked about one item: whether it took a call of ours between two times.

    A look-up by content has the whole message, as `Reservation` has it; one by reference needs
    none, and may get an empty one.
    """

    reference: IdempotencyKey
    after: datetime
    before: datetime
    asked_at: datetime
    """By the ledger's clock, as the other two are."""
    address: str = ""
    subject: str | None = None
    body: str = ""
    payload: Mapping[str, Any] | None = None
    is_html: bool = False
    enclosures: Sequence[Enclosure] = ()
    unsubscribe_url: str | None = None
    head: MailHead = USUAL_HEAD


class Gateway(Protocol):
    """One gateway family talking to one URL."""

    @property
    def type(self) -> GatewayType: ...

    @property
    def memory(self) -> ReferenceMemory:
        """How long this target's provider remembers a reference: the basis for repeating a call
        after a silence."""
        ...

    @property
    def window_items(self) -> int:
        """How many items of one job may be open at once: what a crash can put in doubt."""
        ...

    @property
    def concurrency(self) -> int:
        """How many concurrent calls one process makes."""
        ...

    async def call(self, reservation: Reservation) -> CallResult:
        """Call the provider once. Never raises for what the provider or the network does."""
        ...

    @property
    def looks_up(self) -> LookUp | None:
        """How this target's provider can be asked what it received; None: it cannot."""
        ...

    @property
    def recipe(self) -> str:
        """A fingerprint of everything that requests are made of besides the message. With the same
        recipe, the same message gives the same request, to the byte."""
        ...

    @property
    def records(self) -> str:
        """A fingerprint of whose records a look-up asks. What is absent from others than those of
        the time of the call may well have been sent."""
        ...

    async def look_up(
        self, questions: Sequence[LookUpQuestion]
    ) -> Mapping[IdempotencyKey, LookedUp]:
        """Whether the provider has each of these. What it does not say is unknown. Never raises for
        what the provider or the network does."""
        ...

    async def trim(self, connections: int) -> None:
        """Keep no more idle connections than this: the provider accepts fewer than configured, and
        counts idle ones too."""
        ...

    async def close(self) -> None: ...


RECORDS: Final = "records:"


class GatewayDirectory(Protocol):
    """Finds the gateway for a contract, with the execution settings of its submission target."""

    def gateway(
        self,
        submission_target: str,
        gateway_type: str,
        gateway_url: str,
        workspace: WorkspaceName = DEFAULT_WORKSPACE_NAME,
    ) -> Gateway:
        """With the workspace's own credentials, or those that are shared with it."""
        ...

    def evidence(
        self,
        submission_target: str,
        gateway_type: str,
        gateway_url: str,
        workspace: WorkspaceName = DEFAULT_WORKSPACE_NAME,
    ) -> TargetEvidence:
        """What can settle a doubt about a call there, with the target's current settings."""
        ...

    def recipes(self) -> list[tuple[str, str, str, str]]:
        """Target, URL, workspace and recipe of every gateway in use here whose provider wants a
        repeat to be the same to the byte; and, as `RECORDS` and their fingerprint, whose records
        its look-up asks."""
        ...

    def own_workspaces(self, submission_target: str) -> list[WorkspaceName]:
        """Those with their own set-up for this target."""
        ...

    def shares_reports(self, submission_target: str, workspace: WorkspaceName) -> bool:
        """Whether the provider's reports on this workspace's messages come together with those on
        others'."""
        ...

    def is_scoped(self, submission_target: str, workspace: WorkspaceName) -> bool:
        """Whether a provider's complaint about our set-up concerns only this workspace."""
        ...
