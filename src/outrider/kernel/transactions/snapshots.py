"""The snapshot of a campaign: all phases' states and accountings at one time, and the sequence."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.blocker_facts import Blocker
from outrider.domain.campaigns import LAUNCH
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.outbox import Accounting, total
from outrider.domain.phases import control_phase
from outrider.domain.rollouts import StepProgress
from outrider.domain.states import PhaseState
from outrider.kernel.transactions import campaigns, delivery_accountings, rollouts, run_records
from outrider.kernel.transactions.launch_outcomes import earlier_runs
from outrider.ports.store import Transaction


class PhaseSnapshot(NamedTuple):
    phase: str
    state: PhaseState
    run_id: RunId | None
    sequence: int
    reason: str | None
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    run_status: str | None
    accounting: Accounting | None
    earlier_in_doubt: int
    waits_for: str | None
    outcome: Accounting | None
    """For a launch, over this run and those that it retried."""
    runs: int
    scheduled_for: datetime | None
    rollout: Sequence[StepProgress] = ()
    """The steps of a launch that has a rollout."""
    blockers: Sequence[Blocker] = ()
    """Why the phase in progress is not moving."""

    @property
    def is_under_way(self) -> bool:
        return self.state in (PhaseState.IN_PROGRESS, PhaseState.PAUSED)

    @property
    def progress_percentage(self) -> float:
        """How much of what the phase's run intends has ended, one way or another."""
        if self.accounting is None:
            return 0.0
        return progress_percentage(self.accounting)


class CampaignSnapshot(NamedTuple):
    campaign_id: CampaignId
    name: str
    audience_size: int
    last_sequence: int
    phases: list[PhaseSnapshot]

    def with_blockers(self, found: Mapping[RunId, Sequence[Blocker]]) -> "CampaignSnapshot":
        return self._replace(
            phases=[
                phase._replace(blockers=found.get(phase.run_id, ()) if phase.run_id else ())
                for phase in self.phases
            ]
        )

    @property
    def control_phase(self) -> str | None:
        return control_phase((phase.phase, phase.state) for phase in self.phases)


def progress_percentage(accounting: Accounting) -> float:
    if not accounting.intended:
        return 100.0
    return round(100 * accounting.terminal / accounting.intended, 2)


def snapshot(scope: Scope, campaign_id: CampaignId) -> Transaction[CampaignSnapshot]:
    record = yield from campaigns.campaign(scope, campaign_id)
    phases = []
    for phase in (yield from campaigns.phases_of(record.id)):
        accounting, status, earlier, waits_for = None, None, 0, None
        outcome, runs, scheduled_for = None, 0, None
        rollout: Sequence[StepProgress] = ()
        if phase.run_id is not None:
            run = yield from run_records.run_anywhere(RunId(phase.run_id))
            accounting, status = (yield from delivery_accountings.accounting(run)), run.status
            waits_for = run.waits_for
            outcome, runs = (accounting, 1) if phase.phase == LAUNCH else (None, 1)
            if phase.phase == LAUNCH:
                rollout = yield from rollouts.of_run(run.id)
            scheduled_for = run.scheduled_for if run.scheduled_for > run.created_at else None
            if run.retry_of is not None and phase.phase == LAUNCH:
                earlier = yield from run_records.left_in_doubt(record.id)
                before = (yield from earlier_runs({run.id: record.id}))[run.id]
                outcome, runs = total([before.settled, accounting]), 1 + before.runs
        phases.append(
            PhaseSnapshot(
                phase.phase,
                PhaseState(phase.state),
                RunId(phase.run_id) if phase.run_id else None,
                phase.last_sequence,
                phase.reason,
                phase.started_at,
                phase.finished_at,
                phase.updated_at,
                status,
                accounting,
                earlier,
                waits_for,
                outcome,
                runs,
                scheduled_for,
                rollout,
            )
        )
    return CampaignSnapshot(
        record.id, record.name, record.audience_size, record.last_sequence, phases
    )
