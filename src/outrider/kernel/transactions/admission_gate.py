"""The admission gate: admits a run, makes it wait, delays it or refuses it.

Limits are per workspace, from settings; without any, every run is admitted without counting.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from outrider.domain.admission import (
    Admission,
    AdmissionRule,
    Admitted,
    Delayed,
    NotAdmitted,
    OverloadPolicy,
    Queued,
    admit,
)
from outrider.domain.errors import Overloaded
from outrider.domain.ids import Scope
from outrider.kernel.transactions import admission, run_requests
from outrider.kernel.transactions.deployment import RunStart
from outrider.kernel.transactions.run_requests import HeldFor, Workspace
from outrider.ports.clock import Clock
from outrider.ports.store import Transaction

RuleOf = Callable[[Workspace], AdmissionRule]


class AdmissionGate:
    def __init__(self, rule_of: RuleOf, clock: Clock) -> None:
        self._rule_of = rule_of
        self._clock = clock

    def decide(self, scope: Scope) -> Transaction[Admission]:
        """Holds the workspace's admission lock until the commit."""
        workspace = yield from run_requests.workspace(scope)
        return (yield from _decided(self._rule_of(workspace), scope))

    def newcomer(self, scope: Scope) -> Transaction[Admission]:
        """The same for a new run: if others already wait for capacity, it queues behind them."""
        return (yield from self._newcomer(scope, (yield from run_requests.workspace(scope))))

    def _newcomer(self, scope: Scope, workspace: Workspace) -> Transaction[Admission]:
        rule = self._rule_of(workspace)
        verdict = yield from _decided(rule, scope)
        waits_its_turn = rule.has_limit and rule.policy is OverloadPolicy.QUEUE
        if waits_its_turn and (yield from admission.anything_waits(scope)):
            return Queued()
        return verdict

    def admit(self, run_start: RunStart) -> Transaction[RunStart]:
        """The run start as admitted. Raises Overloaded if it was refused."""
        workspace = yield from run_requests.workspace(run_start.scope)
        run_start = replace(run_start, workspace=workspace)
        verdict = yield from self._newcomer(run_start.scope, workspace)
        match verdict:
            case Admitted():
                return run_start
            case Queued():
                return replace(run_start, held=HeldFor.ROOM)
            case Delayed():
                return replace(run_start, not_before=later(verdict, self._clock.now()))
            case NotAdmitted(retry_after_seconds):
                raise Overloaded(
                    "the workspace has reached its limit of running work", retry_after_seconds
                )
            case other:
                assert_never(other)


def _decided(rule: AdmissionRule, scope: Scope) -> Transaction[Admission]:
    if not rule.has_limit:
        return Admitted()
    return admit(rule, (yield from admission.load(scope)))


def later(verdict: Admitted | Delayed, now: datetime) -> datetime:
    """When the jobs of the admitted run are due."""
    return now + timedelta(seconds=verdict.seconds) if isinstance(verdict, Delayed) else now
