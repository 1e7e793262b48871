"""The gateway port: one way out, and it only opens to a reservation.

`Reservation` is abstract and its only concrete kind is private to the kernel's reserve stage, so a
provider call without a durable ledger row does not type-check.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from outrider.domain.call_results import CallResult
from outrider.domain.ids import IdempotencyKey, OutboxId
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
        """Asked immediately before the first byte that could make the provider act: nothing may be
        awaited between the answer and that byte. False: the call must not be made any more, and
        its result is `NotBegun`."""

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
        """A direct intent's opaque payload, as it came; None for what was rendered here."""

    @property
    def payload_text(self) -> str | None:
        """The payload as its client spelt it, where that is known."""
        return None

    @property
    def is_html(self) -> bool:
        """Whether its body was written, and escaped, as HTML."""
        return False

    @property
    def enclosures(self) -> Sequence[Enclosure]:
        """Files that go with the message."""
        return ()

    @property
    def unsubscribe_url(self) -> str | None:
        """Where its recipient opts out with one click."""
        return None


class Gateway(Protocol):
    """One gateway family talking to one URL."""

    @property
    def type(self) -> GatewayType: ...

    @property
    def memory(self) -> ReferenceMemory:
        """How long the provider of this target remembers a reference: on whose word a call may be
        repeated after a silence."""
        ...

    @property
    def window_items(self) -> int:
        """How many items of one job may be open at once: what a crash can put in doubt."""
        ...

    @property
    def concurrency(self) -> int:
        """How many calls one process makes at the same time."""
        ...

    async def call(self, reservation: Reservation) -> CallResult:
        """Call the provider once. Never raises for what the provider or the network does."""
        ...

    async def look_up(self, references: Sequence[IdempotencyKey]) -> dict[IdempotencyKey, bool]:
        """Which references the provider has (True) or has not (False); unknown ones are absent."""
        ...

    async def trim(self, connections: int) -> None:
        """Keep no more idle connections than these: the provider takes fewer than it was asked
        for, and counts idle ones too."""
        ...

    async def close(self) -> None: ...


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

    def own_workspaces(self, submission_target: str) -> list[WorkspaceName]:
        """Those that have a set-up of their own for this target."""
        ...

    def is_scoped(self, submission_target: str, workspace: WorkspaceName) -> bool:
        """Whether what a provider says of our set-up is about this workspace and not all."""
        ...
