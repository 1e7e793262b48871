"""One target of any family, whose cut-off calls settle by what its provider can prove."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.evidence import EvidenceKind
from outrider.domain.ids import DEFAULT_SCOPE, IdempotencyKey, RunId
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.recipients import Recipient, recipient
from outrider.domain.states import Channel
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.gateways.simulators.web_push import subscription
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.limits.kernel import Limits
from outrider.settings import Settings, TargetSettings
from outrider.testing import launches
from tests.support.provider_targets import PLANTED, TARGETS, url_of
from tests.support.raw_sql import raw_sql

TARGET = "t"
LIMITS = Limits(job_max_attempts=1_000_000, idle_poll_seconds=0.02, rescue_interval_seconds=0.2)
"""Of doubts the usual ones: a minute is a minute."""
REST_SECONDS = 300.0
LOOK_SECONDS = 0.2
DELAY_SECONDS = 2.0
CONCURRENCY = 2
"""So that each kill cuts a few calls off, and a thousand kills need no million messages."""
SEED = int(os.environ.get("OUTRIDER_CRASH_SEED", "20261118"))

KEY: Final = frozenset({EvidenceKind.KEY})
LOOK_UP: Final = frozenset({EvidenceKind.LOOK_UP})
CONTENT: Final = frozenset({EvidenceKind.CONTENT})
RECEIPT: Final = frozenset({EvidenceKind.RECEIPT})
NEVER: Final = {"remembers_references": "never"}

KEYS = "SELECT idempotency_key, status FROM channel_outbox"
JOBS_UNDER_WAY = """SELECT count(*) FROM job_queue
 WHERE run_id IS NOT NULL AND outcome IS NULL AND status <> 'queued'"""


@dataclass(frozen=True)
class Case:
    """A family, and what its target says it can prove."""

    name: str
    family: str
    kinds: frozenset[EvidenceKind] = frozenset()
    settings: Mapping[str, Any] = field(default_factory=dict)
    asks: bool = False
    """Its target declares the simulator's own look-up."""
    receipts: Mapping[str, str] = field(default_factory=dict)
    """The credentials that its reports are verified with."""
    options: Mapping[str, str] = field(default_factory=dict)

    life_seconds: float = 0.06
    """How long after its first call's beginning a worker lives at most; longer where that call has
    something to load or to sign first."""

    def __str__(self) -> str:
        return self.name


class Scene:
    def __init__(self, outrider: Outrider, sandbox: Sandbox, case: Case, folder: Path) -> None:
        self.outrider = outrider
        self.sandbox = sandbox
        self.case = case
        self.log = folder / "workers.log"
        self.run_id: RunId | None = None

    async def begin(self, items: int) -> None:
        channel = GATEWAY_TYPES[self.case.family].channel
        if channel is Channel.SOCIAL:
            # A campaign posts once; single posts can be as many as one likes.
            for number in range(items):
                given = Submission(f"i-{number}", TARGET, {"body": f"Post number {number}"})
                await self.outrider.submissions.submit(DEFAULT_SCOPE, given)
            return
        offer = launches.message(channel, TARGET, body="An offer for you")
        people = _people(self.case.family, items)
        self.run_id = await launches.launch(self.outrider, [offer], people, batch_size=20)

    async def rows(self, statement: str) -> list[tuple[Any, ...]]:
        async with raw_sql(self.outrider.settings.database_url) as raw:
            return await raw.run(statement)

    async def unsettled(self) -> Counter[str]:
        """What is in doubt, by what it waits for."""
        found = await self.rows(
            "SELECT coalesce(c.settles, 'nobody yet'), count(*) FROM doubt_checks c GROUP BY 1"
        )
        return Counter({str(settles): int(count) for settles, count in found})

    async def waiting(self) -> int:
        [(count,)] = await self.rows(
            "SELECT count(*) FROM channel_outbox WHERE status = 'queued' AND doubted_at IS NULL"
        )
        [(planned,)] = await self.rows(JOBS_UNDER_WAY)
        return int(count) + int(planned)

    async def verdicts(self) -> Counter[tuple[str, str]]:
        found = await self.rows("SELECT kind, verdict, count(*) FROM doubt_verdicts GROUP BY 1, 2")
        return Counter({(str(kind), str(verdict)): int(n) for kind, verdict, n in found})

    async def report(self) -> None:
        """The provider's callbacks about everything it took, as late as they may come."""
        reports = [
            Receipt(f"r-{place}", ReceiptEvent.DELIVERED, each.reference, each.message_id)
            for place, each in enumerate(self.sandbox.kept)
        ]
        for start in range(0, len(reports), 200):
            window = reports[start : start + 200]
            await self.outrider.receipt_intake.take_in(DEFAULT_SCOPE, TARGET, window)

    async def settled(self) -> tuple[float, Counter[str]]:
        """Wait until nothing is in doubt that evidence can settle; how long it took, and what is
        left to people."""
        began = monotonic()
        while True:
            left = await self.unsettled()
            people = Counter({name: left[name] for name in ("person", "receipt") if left[name]})
            if left.total() == people.total() and not await self.waiting():
                return monotonic() - began, people
            assert monotonic() - began < REST_SECONDS, (left, self.log.read_text()[-3_000:])
            await asyncio.sleep(LOOK_SECONDS)

    async def settle_by_hand(self) -> None:
        """What is left to people: one looks into the provider's complete record."""
        received = {IdempotencyKey(each) for each in self.sandbox.deliveries}
        settled = await self.outrider.doubt_resolver.reconcile(
            DEFAULT_SCOPE, run_id=None, received=received, absent=DoubtVerdict.RESUBMIT,
            evidence="the provider's record", actor="crash test",
        )  # fmt: skip
        assert not settled.left, settled

    async def prove(self, items: int) -> None:
        """One delivery of each, no more and no less, each known to be sent; and the certificate
        says by what."""
        rows = await self.rows(KEYS)
        references = {bytes(key).hex() for key, _ in rows}
        assert {str(status) for _, status in rows} <= {"sent", "called", "posted"}
        assert len(references) == items
        assert dict(self.sandbox.deliveries) == dict.fromkeys(references, 1)
        if self.run_id is None:
            return
        certificate = await self.outrider.certifier.certify(DEFAULT_SCOPE, self.run_id)
        assert certificate.holds, certificate.criteria
        listed = Counter(
            {(each.kind.value, each.verdict): each.items for each in certificate.settled}
        )
        # The last verdict on each item: one that was in doubt twice is listed once.
        everything = await self.verdicts()
        assert set(listed) <= set(everything)
        assert listed.total() <= everything.total()
        assert bool(listed) == bool(everything)


def _people(family: str, items: int) -> list[Recipient]:
    tokens: dict[str, Callable[[int], str]] = {
        "apns": lambda number: f"{number + 1:064x}",
        "web_push": lambda number: subscription(f"/web-push/{number}"),
        "expo": lambda number: f"ExponentPushToken[{number}]",
    }
    if family not in tokens:
        return launches.people(items)
    return [
        recipient(f"lead-{number}", push_token=tokens[family](number)) for number in range(items)
    ]


@asynccontextmanager
async def opened(database: str, folder: Path, case: Case, seed: int = SEED) -> AsyncIterator[Scene]:
    async with Sandbox(Faults(seed=seed)) as sandbox:
        url = url_of(sandbox, case.family)
        registry = folder / "registry.json"
        # Where a key is remembered, the contract's own retries would repeat what is silent.
        attempts = 1 if case.kinds >= KEY else 10_000
        registry.write_bytes(
            launches.registry(launches.target(TARGET, case.family, url, maxAttempts=attempts))
        )
        settings = Settings(
            database_url=database, registry=registry, artifacts=folder / "artifacts",
            spool=folder / "spool", targets={TARGET: _target(case, sandbox, folder)},
        )  # fmt: skip
        async with open_outrider(settings, limits=LIMITS) as outrider:
            await outrider.store.migrate()
            yield Scene(outrider, sandbox, case, folder)


def _target(case: Case, sandbox: Sandbox, folder: Path) -> TargetSettings:
    known: dict[str, Any] = {**TARGETS[case.family].model_dump(), **case.settings}
    secrets: dict[str, str] = dict.fromkeys(known["credentials"], PLANTED)
    secrets |= case.receipts
    for name, value in secrets.items():
        # The workers are other processes.
        (folder / name).write_text(value)
    known["credentials"] = {name: f"file:{folder / name}" for name in secrets}
    known["options"] = {**known["options"], **case.options}
    known |= {"concurrency": CONCURRENCY, "look_up_delay_seconds": DELAY_SECONDS}
    known["retry_first_seconds"] = 0.05
    if case.asks:
        known["look_up_url"] = sandbox.look_up_url
    return TargetSettings(**known)
