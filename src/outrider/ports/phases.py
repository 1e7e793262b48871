"""The phase port: what a phase of a campaign does, in two parts, and the context it runs in.

`plan` says which jobs a run of the phase has; `process` does one of them, on any worker, and may be
called again after a crash: it must then write the same. A finished job is never processed again, so
jobs are the checkpoints.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from outrider.domain.campaigns import CampaignDefinition
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.recipients import AddressKind, Recipient


@dataclass(frozen=True, slots=True)
class PhaseJobPlan:
    """A planned job: how many items it covers, and a small JSON task for `process`."""

    items: int
    detail: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PhaseJob:
    """One job of the phase's run. Its id is the same however often it is processed."""

    id: str
    items: int
    detail: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """The outcome of a job's items; the three numbers add up to the items it was planned with.

    Skipped is for items that legitimately need nothing; failed makes the run partial, or failed if
    nothing succeeded. `detail` is a small JSON document for people to read.
    """

    succeeded: int
    failed: int = 0
    skipped: int = 0
    detail: Mapping[str, object] = field(default_factory=dict)


class AudienceMember(NamedTuple):
    position: int
    recipient_id: str
    email: str | None
    phone: str | None
    push_token: str | None
    invalid: int


class AudienceChunk(NamedTuple):
    """Recipients as they were given (JSON objects), to be imported from `first_position` on."""

    chunk: int
    first_position: int
    record_count: int


class ResultLine(NamedTuple):
    """One ledger row of a run, as a report shows it."""

    outbox_id: str
    recipient_id: str
    address: str | None
    channel: str
    submission_target: str
    status: str
    reason: str | None
    attempts: int
    provider_message_id: str | None
    updated_at: str
    delivery: str = "none"
    """Its delivery, as reported by receipts."""
    delivery_reason: str = ""
    variant: str | None = None
    """Of its message, where that has variants."""


class PhaseContext(Protocol):
    """Everything a phase handler may touch, for one run of one campaign. Every call is bounded."""

    @property
    def campaign_id(self) -> CampaignId: ...

    @property
    def run_id(self) -> RunId: ...

    @property
    def scope(self) -> Scope:
        """Whose campaign it is: a tenant's workspace."""
        ...

    @property
    def definition(self) -> CampaignDefinition: ...

    async def positions(self) -> int:
        """One more than the highest position of the audience."""
        ...

    async def members(self, first: int, last: int) -> Sequence[AudienceMember]:
        """The audience between two positions, inclusive, at most one batch."""
        ...

    async def mark_invalid(self, kind: AddressKind, positions: Sequence[int]) -> None:
        """These members cannot be reached on that kind of address; the launch will skip them."""
        ...

    async def uploads(self) -> Sequence[AudienceChunk]:
        """What is waiting to be imported."""
        ...

    async def repeated_uploads(self) -> Sequence[int]:
        """The positions of records whose id an earlier record already has, in order."""
        ...

    async def upload(self, chunk: int) -> Sequence[object]:
        """The records of one chunk, unchanged."""
        ...

    async def add_members(self, first: int, recipients: Sequence[Recipient | None]) -> int:
        """Import recipients at consecutive positions from `first` on; None leaves a gap.

        Returns how many of them are in the audience now: one whose id already exists is left out.
        """
        ...

    async def launch_summary(self) -> Mapping[str, object] | None:
        """The latest launch: `run`, `runs`, `accounting`, `certificate`, `reasons`; None before the
        first.

        `accounting` has the final outcome of every message, over all `runs`: the latest and those
        that it retried. `certificate` and `reasons`, a list of {status, reason, items}, are of the
        latest.
        """
        ...

    def launch_lines(self) -> AsyncIterator[Sequence[ResultLine]]:
        """The ledger rows of the latest launch and of the launches it retried, in pages; for each
        message only the last one, which is its final outcome."""
        ...

    async def keep(self, name: str, media_type: str, content: AsyncIterator[bytes]) -> None:
        """Store an artifact of this run, with its size and sha256; an existing name is replaced."""
        ...


class PhaseHandler(Protocol):
    """Registered under the entry point `outrider.phases`; its name is the phase's name."""

    @property
    def name(self) -> str: ...

    async def plan(self, context: PhaseContext) -> Sequence[PhaseJobPlan]:
        """The jobs of a run; none means there is nothing to do, and the phase completes."""
        ...

    async def process(self, context: PhaseContext, job: PhaseJob) -> PhaseResult: ...
