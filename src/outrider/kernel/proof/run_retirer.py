"""The run retirer: writes an old run's evidence bundle, verifies it, and removes the run's rows.

The bundle is committed before anything is removed, so a crash at any moment loses nothing: whoever
retires next goes on where the last one stopped. Rows go in windows, with a rest after each.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec
import structlog

from outrider.domain.address_pages import BUCKETS, MIXED_BUCKET
from outrider.domain.errors import OutriderError, StoreUnavailable
from outrider.domain.ids import CampaignId, RunId
from outrider.kernel.foundation import Foundation
from outrider.kernel.proof.bundle_verifier import BundleVerifier
from outrider.kernel.proof.evidence_writer import EvidenceWriter
from outrider.kernel.transactions import retirement
from outrider.kernel.transactions.ledger_pages import LedgerPosition
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.retirement import BUNDLE_NAME, RetirableRun, Retirement
from outrider.limits.artifacts import ARTIFACT_PIECE_BYTES
from outrider.limits.proof import (
    RETIRE_HELD_SECONDS,
    RETIRE_HOLD_AGAIN_SECONDS,
    RETIRE_REST_SHARE,
    RETIRE_RUNS_LOOKED_AT,
    RETIRE_WINDOW_PAGES,
    RETIRE_WINDOW_ROWS,
    SEAL_PAGE_ROWS,
)
from outrider.ports.artifacts import ArtifactStore
from outrider.ports.signing import SignatureCheck

log = structlog.get_logger()

ACTOR = "retention"
BEGINNING = datetime.min.replace(year=1970)


@dataclass(slots=True)
class RetiredRuns:
    runs: int = 0
    rows: int = 0
    """Of the ledger. In a dry run, as many as the runs intended."""
    kept: list[tuple[RunId, str]] = field(default_factory=list)
    """Runs that are old enough and were not retired, each with why."""


class RunRetirer:
    def __init__(
        self,
        foundation: Foundation,
        writer: EvidenceWriter,
        artifacts: ArtifactStore,
        is_signed: SignatureCheck,
        memory: timedelta,
    ) -> None:
        """`memory`: how long a repeat of what is removed is still recognised."""
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._writer = writer
        self._artifacts = artifacts
        self._verifier = BundleVerifier(is_signed)
        self._memory = memory

    async def retire(self, before: datetime) -> RetiredRuns:
        """Retire every run that ended before this time, and complete what a crash interrupted."""
        done = RetiredRuns()
        await self._resume(done)
        async for run in self._retirable(before):
            await self._retire(run, done)
        return done

    async def count(self, before: datetime) -> RetiredRuns:
        """What `retire` would do, as far as can be said without making seals."""
        found = RetiredRuns()
        async for run in self._retirable(before):
            found.runs += 1
            found.rows += run.intended
        return found

    async def _retirable(self, before: datetime) -> AsyncIterator[RetirableRun]:
        after = (BEGINNING.replace(tzinfo=before.tzinfo), FIRST)
        while True:
            page = await self._store.read(
                retirement.retirable(before, after, RETIRE_RUNS_LOOKED_AT)
            )
            for run in page:
                yield run
            if len(page) < RETIRE_RUNS_LOOKED_AT:
                return
            after = (page[-1].ended.finished_at, page[-1].ended.run_id)

    async def _resume(self, done: RetiredRuns) -> None:
        after = FIRST
        while page := await self._store.read(retirement.under_way(after, RETIRE_RUNS_LOOKED_AT)):
            for run_id in page:
                if await self._hold(run_id):
                    await self._remove(run_id, done)
            after = page[-1]

    async def _hold(self, run_id: RunId) -> bool:
        now = self._clock.now()
        until = now + timedelta(seconds=RETIRE_HELD_SECONDS)
        return await self._store.write(retirement.hold(run_id, now, until))

    async def _retire(self, run: RetirableRun, done: RetiredRuns) -> None:
        run_id = run.ended.run_id
        if not await self._hold(run_id):
            return
        try:
            why = await self._write(run)
        except StoreUnavailable:
            raise
        except OutriderError as error:
            why = error.message
        if why is not None:
            log.warning("run_not_retired", run_id=run_id, reason=why)
            await self._store.write(retirement.release(run_id))
            done.kept.append((run_id, why))
            return
        await self._remove(run_id, done)

    async def _write(self, run: RetirableRun) -> str | None:
        """The bundle, read back and verified before its commit; or why the run stays."""
        run_id, scope = run.ended.run_id, run.ended.scope
        lines = self._writer.bundle(scope, run_id)
        stored = await self._artifacts.put(run_id, BUNDLE_NAME, _pieces(lines))
        found = await self._verifier.verify_pieces(self._artifacts.read(stored.reference))
        if not found.holds or found.seal is None or found.run_id != run_id:
            return "its bundle does not hold: run `outrider verify --database`"
        if found.seal.open_rows:
            return "messages of it are in doubt or have no ending"
        certificate = msgspec.json.encode(found.certificate).decode()
        begun = await self._store.write(
            retirement.begin(
                run, stored, found.last_event, certificate, ACTOR, self._ids, self._clock.now()
            )
        )
        return None if begun else "it has changed meanwhile"

    async def _remove(self, run_id: RunId, done: RetiredRuns) -> None:
        found = await self._store.read(retirement.of_run(run_id))
        assert found is not None
        done.rows += await self._remove_ledger(found)
        await self._ranges(
            run_id, 0, found.events, RETIRE_WINDOW_ROWS,
            lambda after, until: self._store.write(
                retirement.remove_events(run_id, after, until)
            ),
        )  # fmt: skip
        rows = msgspec.json.decode(found.certificate)["accounting"]["intended"]
        await self._ranges(
            run_id, -1, rows // SEAL_PAGE_ROWS + 1, RETIRE_WINDOW_PAGES,
            lambda after, until: self._store.write(
                retirement.remove_sealed_pages(run_id, after, until)
            ),
        )  # fmt: skip
        await self._store.write(retirement.remove_exclusions(run_id))
        await self._remove_audience(run_id, found.campaign_id)
        await self._store.write(retirement.complete(run_id, self._clock.now()))
        done.runs += 1

    async def _remove_ledger(self, found: Retirement) -> int:
        after, removed = LedgerPosition(), 0
        forget_at = self._clock.now() + self._memory
        held_at = self._clock.monotonic()
        while True:
            began = self._clock.monotonic()
            rows, after = await self._store.write(
                retirement.remove_ledger(found, after, RETIRE_WINDOW_ROWS, forget_at)
            )
            removed += rows
            if rows < RETIRE_WINDOW_ROWS:
                return removed
            held_at = await self._rested(found.run_id, began, held_at)

    async def _remove_audience(self, run_id: RunId, campaign_id: CampaignId) -> None:
        """With the last run of a campaign."""
        left = await self._store.read(retirement.audience_left(campaign_id))
        if left is None:
            return
        size, uploads = left
        await self._ranges(
            run_id, -1, size, RETIRE_WINDOW_ROWS,
            lambda after, until: self._store.write(
                retirement.remove_audience(campaign_id, after, until)
            ),
        )  # fmt: skip
        await self._ranges(
            run_id, -1, uploads, RETIRE_WINDOW_PAGES,
            lambda after, until: self._store.write(
                retirement.remove_uploads(campaign_id, after, until)
            ),
        )  # fmt: skip
        for bucket in (MIXED_BUCKET, *range(BUCKETS)):
            await self._store.write(retirement.remove_address_pages(campaign_id, bucket))

    async def _ranges(
        self, run_id: RunId, after: int, last: int, most: int,
        remove: Callable[[int, int], Awaitable[None]],
    ) -> None:  # fmt: skip
        """Everything up to the last, in windows of a few."""
        held_at = self._clock.monotonic()
        while after < last:
            began = self._clock.monotonic()
            until = min(after + most, last)
            await remove(after, until)
            after = until
            held_at = await self._rested(run_id, began, held_at)

    async def _rested(self, run_id: RunId, began: float, held_at: float) -> float:
        """Sending goes first. Returns when the run was last held."""
        await self._clock.sleep((self._clock.monotonic() - began) * RETIRE_REST_SHARE)
        if self._clock.monotonic() - held_at < RETIRE_HOLD_AGAIN_SECONDS:
            return held_at
        now = self._clock.now()
        until = now + timedelta(seconds=RETIRE_HELD_SECONDS)
        await self._store.write(retirement.hold_on(run_id, until))
        return self._clock.monotonic()


async def _pieces(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A file is written in few pieces, not in many lines."""
    waiting, size = list[bytes](), 0
    async for line in lines:
        waiting.append(line)
        size += len(line)
        if size >= ARTIFACT_PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
