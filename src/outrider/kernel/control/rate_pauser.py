"""The rate pauser: pauses a campaign of which more bounces, or is complained of, than it allows.

It looks when a run has got worse, and pauses a run for each of its reasons once: whoever resumes it
has seen them.
"""

import asyncio

import structlog

from outrider.domain.campaigns import PauseOn
from outrider.domain.errors import OutriderError, StoreUnavailable
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.phases import Action
from outrider.domain.receipts import DeliveryState
from outrider.kernel.control.phase_controller import PhaseController
from outrider.kernel.control.phase_controls import Control
from outrider.kernel.transactions import campaigns, deliveries, inspection
from outrider.kernel.transactions.inspection import RunRecord
from outrider.limits.kernel import Limits
from outrider.limits.receipts import ReceiptLimits
from outrider.ports.clock import Clock
from outrider.ports.store import Store, Transaction

log = structlog.get_logger()

ACTOR = "rate_pauser"


class RatePauser:
    def __init__(
        self,
        store: Store,
        controller: PhaseController,
        clock: Clock,
        limits: Limits,
        receipt_limits: ReceiptLimits,
    ) -> None:
        self._store = store
        self._controller = controller
        self._clock = clock
        self._limits = limits
        self._receipt_limits = receipt_limits
        self._worse: set[tuple[Scope, RunId]] = set()
        self._woken = asyncio.Event()

    def note(self, worse: frozenset[tuple[Scope, RunId]]) -> None:
        """More of these runs bounced, or was complained of, than before."""
        self._worse |= worse
        self._woken.set()

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._worse:
                scope, run_id = self._worse.pop()
                try:
                    await self.judge(scope, run_id)
                except StoreUnavailable as error:
                    log.warning("rates_not_read", run_id=run_id, error=error.message)
                    self._worse.add((scope, run_id))
                    await self._clock.sleep(self._limits.store_backoff_seconds)

    async def judge(self, scope: Scope, run_id: RunId) -> str | None:
        """Why the run was paused, if it was."""
        run, reason = await self._store.read(self._reason(scope, run_id))
        if reason is None:
            return None
        control = Control(Action.PAUSE, ACTOR, run_id=run_id, reason=reason)
        try:
            await self._controller.control(scope, CampaignId(run.campaign_id), run.phase, control)
        except StoreUnavailable:
            raise
        except OutriderError as refusal:
            # It has ended, or somebody paused it: there is nothing to pause.
            log.info("campaign_not_paused", run_id=run_id, reason=reason, error=refusal.message)
            return None
        log.warning("campaign_paused", run_id=run_id, reason=reason)
        return reason

    def _reason(self, scope: Scope, run_id: RunId) -> Transaction[tuple[RunRecord, str | None]]:
        run = yield from inspection.run(scope, run_id)
        found = yield from campaigns.campaign(scope, CampaignId(run.campaign_id))
        pause_on = campaigns.read_definition(found.definition).pause_on
        if pause_on is None:
            return run, None
        _, accounting = yield from inspection.run_with_accounting(scope, run_id)
        counts = yield from deliveries.of_run(run_id)
        if accounting.sent < self._receipt_limits.rate_sample_messages:
            return run, None
        reasons = _reasons(
            pause_on,
            counts.get(DeliveryState.BOUNCED, 0),
            counts.get(DeliveryState.COMPLAINED, 0),
            accounting.sent,
        )
        if not reasons:
            return run, None
        audit = yield from inspection.audit_of_run(
            scope, run_id, inspection.FIRST, self._limits.page_items
        )
        paused_before = " ".join(each.detail for each in audit if each.actor == ACTOR)
        fresh = [told for kind, told in reasons.items() if kind not in paused_before]
        return run, "; ".join(fresh) or None


def _reasons(pause_on: PauseOn, bounced: int, complained: int, sent: int) -> dict[str, str]:
    """By the name of the limit, which the audit log then has."""
    reasons = {}
    for kind, count, most in (
        ("bounceRate", bounced, pause_on.bounce_rate),
        ("complaintRate", complained, pause_on.complaint_rate),
    ):
        if most is not None and count > most * sent:
            what = "bounced" if kind == "bounceRate" else "were complained of"
            reasons[kind] = (
                f"{count:,} of {sent:,} sent messages {what} ({count / sent:.2%}), and"
                f" pauseOn.{kind} is {most:.2%}"
            )
    return reasons
