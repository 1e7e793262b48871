"""What a check of all workflows reads: every workspace's rules, steps and retries, in windows."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from outrider.domain.ids import Scope, TenantId, WorkspaceId
from outrider.domain.screen_policies import policies_from
from outrider.domain.states import Channel
from outrider.domain.workflow_retry import USUAL_RETRY, WorkflowRetry
from outrider.domain.workflows import RoutePlace, RuleId
from outrider.ports.store import Transaction, ask


class StepToCheck(NamedTuple):
    step_order: int
    channel: Channel
    submission_target: str | None
    subject: str | None
    body: str


class RuleToCheck(NamedTuple):
    """Of a disabled rule no step is read."""

    id: RuleId
    scope: Scope
    trigger: str
    place: RoutePlace
    enabled: bool
    retry: WorkflowRetry
    steps: list[StepToCheck]


def rules_after(after: str, most: int) -> Transaction[list[RuleToCheck]]:
    """A window of the rules of all workspaces, by their ids."""
    rows = yield from ask("rules_to_check", after=after, most=most)
    found: dict[str, RuleToCheck] = {}
    for (
        rule_id, tenant, workspace, trigger, channel, audience, enabled, policy, order,
        step_channel, target, subject, body,
    ) in rows:  # fmt: skip
        if rule_id not in found:
            found[rule_id] = RuleToCheck(
                RuleId(rule_id), Scope(TenantId(tenant), WorkspaceId(workspace)), trigger,
                RoutePlace(Channel(channel), audience), bool(enabled), _retry(policy), [],
            )  # fmt: skip
        if order is not None:
            found[rule_id].steps.append(
                StepToCheck(order, Channel(step_channel), target, subject, body)
            )
    return list(found.values())


def triggers_in_use(triggers: Sequence[str]) -> Transaction[list[tuple[Scope, str]]]:
    """Where each of these triggers was ever told of."""
    rows = yield from ask("triggers_in_use", {"trigger_name": sorted(triggers)})
    return [(Scope(TenantId(row[0]), WorkspaceId(row[1])), row[2]) for row in rows]


def _retry(policy: str | None) -> WorkflowRetry:
    return policies_from(msgspec.json.decode(policy)).retry if policy else USUAL_RETRY
