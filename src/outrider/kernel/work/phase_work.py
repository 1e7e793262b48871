"""Phase work: processes one job of a phase through its handler, and records the result.

An exception from a handler uses up one of the job's attempts; a returned result is final.
"""

from collections.abc import Mapping, Sequence

import msgspec

from outrider.domain.errors import OutriderError
from outrider.domain.ids import WorkerId
from outrider.domain.jobs import CANCELLED, Settlement, Tally
from outrider.domain.references import refuse_secrets
from outrider.kernel.foundation import Foundation
from outrider.kernel.runs.budgeted_store import BudgetedStore
from outrider.kernel.transactions.claims import ClaimedPhaseJob
from outrider.kernel.transactions.settlement import LeaseLost, settle_phase_job
from outrider.kernel.work.phase_context import PhaseContexts, StoredPhaseContext
from outrider.limits.phases import PHASE_DETAIL_MAX_BYTES
from outrider.ports.phases import PhaseHandler, PhaseJob, PhaseResult


class PhaseWork:
    def __init__(
        self,
        foundation: Foundation,
        budgeted: BudgetedStore,
        handlers: Mapping[str, PhaseHandler],
        phase_contexts: PhaseContexts,
        worker_id: WorkerId,
    ) -> None:
        self._budgeted = budgeted
        self._handlers = handlers
        self._phase_contexts = phase_contexts
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._worker_id = worker_id

    async def process(self, job: ClaimedPhaseJob) -> Settlement | LeaseLost:
        cancelled = 0
        kept: Sequence[Mapping[str, object]] = ()
        if job.cancelled:
            result = PhaseResult(0, skipped=job.item_count, detail={"reason": CANCELLED})
            cancelled = job.item_count
        elif job.is_exhausted:
            result = PhaseResult(0, failed=job.item_count, detail={"reason": "job_dead"})
        else:
            context = await self._phase_contexts.context(job.scope, job.campaign_id, job.run_id)
            result = await self._handled(job, context)
            kept = context.kept
        tally = Tally(
            job.item_count,
            succeeded=result.succeeded,
            failed=result.failed,
            skipped=result.skipped,
            cancelled=cancelled,
        )
        return await self._budgeted.write(
            settle_phase_job(
                job, tally, result.detail, kept, self._worker_id, self._ids, self._clock.now()
            )
        )

    async def _handled(self, job: ClaimedPhaseJob, context: StoredPhaseContext) -> PhaseResult:
        handler = self._handlers.get(job.phase)
        if handler is None:
            raise OutriderError(f"no handler for the phase '{job.phase}' is installed here")
        task = PhaseJob(job.id, job.item_count, msgspec.json.decode(job.detail))
        result = await handler.process(context, task)
        parts = result.succeeded, result.failed, result.skipped
        if sum(parts) != job.item_count or min(parts) < 0:
            raise OutriderError(
                f"the handler of '{job.phase}' accounted for {result} of {job.item_count} items"
            )
        if len(msgspec.json.encode(result.detail)) > PHASE_DETAIL_MAX_BYTES:
            raise OutriderError(f"the handler of '{job.phase}' returned too much detail")
        refuse_secrets(result.detail, f"the result of the phase '{job.phase}'")
        return result
