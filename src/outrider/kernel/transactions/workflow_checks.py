"""What a check of all workflows reads: every workspace's rules, steps and retries, in windows."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from outrider.domain.ids import Scope, TenantId, WorkspaceId
from outrider.domain.screen_policies import policies_from
from outrider.domain.states import Channel
from outrider.domain.workflow_retry import USUAL_RETRY, WorkflowRetry
from outrider.domain.workflows import RoutePlace, RuleId, WorkflowStep, in_order
from outrider.kernel.transactions.domain_events import steps_of
from outrider.ports.store import Transaction, ask


class RuleToCheck(NamedTuple):
    """With its enabled steps; a disabled rule needs none."""

    id: RuleId
    scope: Scope
    trigger: str
    place: RoutePlace
    enabled: bool
    retry: WorkflowRetry
    steps: list[WorkflowStep]


def rules_after(after: str, most: int) -> Transaction[list[RuleToCheck]]:
    """A window of the rules of all workspaces, ordered by id."""
    rows = yield from ask("rules_to_check", after=after, most=most)
    found: dict[str, RuleToCheck] = {}
    for rule_id, tenant, workspace, trigger, channel, audience, enabled, policy in rows:
        found[rule_id] = RuleToCheck(
            RuleId(rule_id), Scope(TenantId(tenant), WorkspaceId(workspace)), trigger,
            RoutePlace(Channel(channel), audience), bool(enabled), _retry(policy), [],
        )  # fmt: skip
    enabled_rules = [rule.id for rule in found.values() if rule.enabled]
    for step in in_order((yield from steps_of(enabled_rules))):
        found[step.rule_id].steps.append(step)
    return list(found.values())


class TriggersInUse(NamedTuple):
    found: list[tuple[Scope, str]]
    last: str | None
    """The last workspace of the window; None if there are no more."""


def triggers_in_use(triggers: Sequence[str], after: str, most: int) -> Transaction[TriggersInUse]:
    """Which of these triggers each workspace of a window has ever used."""
    rows = yield from ask("triggers_in_use", {"trigger_name": triggers}, after=after, most=most)
    found = [
        (Scope(TenantId(tenant), WorkspaceId(workspace)), trigger)
        for tenant, workspace, trigger, is_used in rows
        if is_used
    ]
    is_whole = len(rows) == most * len(triggers)
    return TriggersInUse(found, rows[-1][1] if rows and is_whole else None)


def _retry(policy: str | None) -> WorkflowRetry:
    return policies_from(msgspec.json.decode(policy)).retry if policy else USUAL_RETRY
