"""The demo's course: its campaign through all phases, the kill in the launch, the recovery.

A wired Outrider goes in; the findings of the ledger and the simulators' own log come out.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from outrider.api.models.phases import CampaignStatus
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.demo_campaign import (
    AUDIENCE_IMPORT,
    CHANNELS,
    HTTP_VALIDATION,
    REPORT,
    definition,
    write_people,
)
from outrider.cli.demo_children import worker
from outrider.cli.demo_receipts import reported
from outrider.cli.documents import Document, document_of
from outrider.cli.watching import watch, watch_phase
from outrider.domain.campaigns import LAUNCH
from outrider.domain.delivery_counts import DeliveryCounts
from outrider.domain.errors import OutriderError
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.phases import Action
from outrider.domain.states import PhaseState
from outrider.kernel.reports.certifier import Certificate
from outrider.kernel.transactions import accountings, artifacts
from outrider.kernel.transactions.artifacts import ArtifactRecord
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.phase_controls import Control
from outrider.kernel.transactions.run_records import RunRecord

KILL_AT_SHARE = 0.4
SETTLE_SECONDS = 120.0
WATCH_SECONDS = 0.1
ACTOR = "demo"


@dataclass(frozen=True)
class Result:
    accounting: Accounting
    reported: DeliveryCounts
    certificate: Certificate
    artifacts: list[ArtifactRecord]
    deliveries: Counter[str]
    by_protocol: Counter[str]
    kills: int

    def settled_as(self, verdict: DoubtVerdict) -> int:
        """How many doubts the workers settled so, by asking the provider."""
        return sum(each.items for each in self.certificate.settled if each.verdict == verdict)

    @property
    def received(self) -> int:
        return len(self.deliveries)

    @property
    def duplicates(self) -> int:
        return self.deliveries.total() - len(self.deliveries)

    @property
    def lost(self) -> int:
        """Items the ledger calls sent that no simulator ever saw."""
        return max(0, self.accounting.sent - self.received)

    @property
    def holds(self) -> bool:
        return self.certificate.holds and self.duplicates == 0 and self.lost == 0

    def as_document(self) -> Document:
        return {
            "intended": self.accounting.intended,
            "received": self.received,
            "duplicates": self.duplicates,
            "lost": self.lost,
            "inDoubt": self.accounting.in_doubt,
            "kills": self.kills,
            "certificate": self.certificate.holds,
        }


class _Killed(Exception):
    """The worker is dead; stop watching it."""


@dataclass
class CampaignStory:
    """One campaign, from its audience's file to its report. `say` reports progress."""

    outrider: Outrider
    witness: Path
    say: Callable[[str], None]
    kills: int = 0
    campaign_id: CampaignId = field(init=False)

    async def tell(self, recipients: int, link: str, *, kill: bool) -> Result:
        await self._create(recipients, link)
        settings = self.outrider.settings
        async with worker(settings) as first:
            for phase in (AUDIENCE_IMPORT, HTTP_VALIDATION):
                await self._see_through(phase)
            run_id = await self._start(LAUNCH)
            self.say(
                texts.DemoStory.RUN.format(run_id=run_id, recipients=recipients, channels=CHANNELS)
            )
            if kill:
                await self._kill_midway(run_id, first)
            else:
                return await self._finish(run_id, "sending")
        async with worker(settings):
            return await self._finish(run_id, texts.DemoStory.AFTER_KILL)

    async def _create(self, recipients: int, link: str) -> None:
        campaign = definition(link)
        people = self.witness.with_name("people.ndjson")
        write_people(people, recipients, campaign.messages)
        self.campaign_id, _ = await self.outrider.deployer.create(
            DEFAULT_SCOPE, campaign, [], ACTOR
        )
        await self.outrider.audience_intake.add(DEFAULT_SCOPE, self.campaign_id, people, ACTOR)

    async def _start(self, phase: str) -> RunId:
        started = await self.outrider.phase_controller.control(
            DEFAULT_SCOPE, self.campaign_id, phase, Control(Action.START, ACTOR)
        )
        assert started.run_id is not None
        return started.run_id

    async def _see_through(self, phase: str) -> None:
        await self._start(phase)
        seen = await watch_phase(self._snapshot, phase, phase)
        if seen["state"] != PhaseState.COMPLETED:
            raise OutriderError(
                texts.DemoStory.WRONG_STATE.format(phase=phase, state=seen["state"])
            )
        done, of = seen["accounting"]["sent"], seen["accounting"]["intended"]
        self.say(f"{phase}: {done:,} of {of:,}")

    async def _snapshot(self) -> Document:
        found = await self.outrider.phase_controller.snapshot(DEFAULT_SCOPE, self.campaign_id)
        return document_of(CampaignStatus.of(found))

    async def _kill_midway(self, run_id: RunId, victim: asyncio.subprocess.Process) -> None:
        async def look(run: RunRecord, accounting: Accounting) -> None:
            if accounting.terminal >= run.intended * KILL_AT_SHARE:
                victim.send_signal(signal.SIGKILL)
                await victim.wait()
                self.kills += 1
                raise _Killed

        with suppress(_Killed):
            await watch(self.outrider, run_id, "sending", look)
        if self.kills:
            self.say(texts.DemoStory.KILLED.format(pid=victim.pid))

    async def _finish(self, run_id: RunId, label: str) -> Result:
        run, accounting = await watch(self.outrider, run_id, label)
        while accounting.in_doubt:
            # Only mail can be in doubt here: a mail server does not know a reference again.
            self.say(texts.DemoStory.IN_DOUBT.format(in_doubt=accounting.in_doubt))
            await self._doubts_settle(run_id)
            run, accounting = await watch(self.outrider, run_id, texts.DemoStory.AFTER_VERDICTS)
        delivery = await reported(self.outrider, run.id, accounting.sent)
        certificate = await self.outrider.certifier.certify(DEFAULT_SCOPE, run.id)
        await self._see_through(REPORT)
        written = await self.outrider.store.read(
            artifacts.page(self.campaign_id, FIRST, self.outrider.limits.page_items)
        )
        # It imports the simulators' web server, which another process of the demo runs.
        from outrider.gateways.sandbox import references_delivered

        return Result(
            accounting,
            delivery,
            certificate,
            written,
            references_delivered(self.witness),
            _by_protocol(self.witness),
            self.kills,
        )

    async def _doubts_settle(self, run_id: RunId) -> None:
        """The worker asks the mail server's log; nobody is needed for it."""
        async with asyncio.timeout(SETTLE_SECONDS):
            while True:
                found = accountings.run_with_accounting(DEFAULT_SCOPE, run_id)
                _, accounting = await self.outrider.store.read(found)
                if not accounting.in_doubt:
                    return
                await asyncio.sleep(WATCH_SECONDS)


def _by_protocol(witness: Path) -> Counter[str]:
    lines = (msgspec.json.decode(line) for line in witness.read_bytes().splitlines())
    return Counter(line["protocol"] for line in lines if line["delivered"])
