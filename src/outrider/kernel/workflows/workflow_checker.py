"""The workflow checker: checks every rule and legacy sender against a registry.

It finds what the first event would otherwise run into: a missing target, a channel with two targets
and no choice, a template that does not compile.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from outrider.domain.contract_reach import shortfall
from outrider.domain.errors import Problem
from outrider.domain.ids import DEFAULT_SCOPE, Scope
from outrider.domain.states import Channel
from outrider.domain.submission import Contract, GatewayType
from outrider.domain.workflow_retry import USUAL_RETRY, WorkflowRetry
from outrider.domain.workflows import RoutePlace
from outrider.kernel.transactions import workflow_checks
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.workflow_checks import RuleToCheck
from outrider.kernel.workflows.event_planner import NO_STEPS, Senders
from outrider.kernel.workflows.step_targets import StepTargets
from outrider.limits.campaigns import PROBLEMS_SHOWN_MAX
from outrider.limits.workflows import CHECKED_RULES_WINDOW
from outrider.ports.store import Store

Contracts = Mapping[str, Contract]
TemplateCheck = Callable[[str], str | None]
"""What is wrong with a template's syntax, or None."""


class WorkflowFindings(NamedTuple):
    """Problems prevent messages from being created; warnings are probable mistakes."""

    problems: list[Problem]
    warnings: list[Problem]


class WorkflowChecker:
    def __init__(
        self,
        store: Store,
        gateway_types: Mapping[str, GatewayType],
        by_channel: Mapping[Channel, str],
        senders: Senders,
        check_template: TemplateCheck,
    ) -> None:
        self._store = store
        self._gateway_types = gateway_types
        self._by_channel = by_channel
        self._senders = senders
        self._check_template = check_template

    async def check(self, contracts: Contracts) -> WorkflowFindings:
        """Check all workspaces in one pass; only a limited number of findings is kept."""
        targets = StepTargets(lambda: contracts, self._gateway_types, self._by_channel)
        findings = WorkflowFindings([], [])
        ruled: set[tuple[Scope, str, RoutePlace]] = set()
        retries: dict[Scope, WorkflowRetry] = {}
        templates: dict[str, str | None] = {}
        after = FIRST
        while True:
            window = await self._store.read(
                workflow_checks.rules_after(after, CHECKED_RULES_WINDOW)
            )
            await self._compile(window, templates)
            for rule in window:
                ruled.add((rule.scope, rule.trigger, rule.place))
                retries[rule.scope] = rule.retry
                _keep(findings.problems, self._problems(rule, targets, templates))
                _keep(findings.warnings, self._warnings(rule, targets))
            if len(window) < CHECKED_RULES_WINDOW:
                break
            after = window[-1].id
        await self._check_senders(targets, ruled, retries, findings)
        return findings

    async def _compile(
        self, rules: Iterable[RuleToCheck], templates: dict[str, str | None]
    ) -> None:
        """Each text once, and in a thread: a long one is compiled in a separate process."""
        texts = {
            text
            for rule in rules
            for step in rule.steps
            for text in (step.subject, step.body)
            if text is not None and text not in templates
        }

        def compiled() -> dict[str, str | None]:
            return {text: self._check_template(text) for text in texts}

        templates |= await asyncio.to_thread(compiled)

    def _problems(
        self, rule: RuleToCheck, targets: StepTargets, templates: Mapping[str, str | None]
    ) -> Iterator[Problem]:
        for step in rule.steps:
            path = f"{_path(rule.scope, rule.trigger, rule.place)}, step {step.step_order}"
            found = targets.find(step.channel, step.submission_target)
            if isinstance(found, str):
                yield Problem(path, found)
            for name, text in (("subject", step.subject), ("body", step.body)):
                wrong = templates[text] if text is not None else None
                if wrong is not None:
                    yield Problem(f"{path}, {name}", wrong)

    def _warnings(self, rule: RuleToCheck, targets: StepTargets) -> Iterator[Problem]:
        path = _path(rule.scope, rule.trigger, rule.place)
        if rule.enabled and not rule.steps:
            yield Problem(path, f"{NO_STEPS}; to send nothing here, disable the rule")
        for step in rule.steps:
            contract = targets.find(step.channel, step.submission_target)
            if isinstance(contract, Contract):
                yield from _shortfall(contract, rule.retry)

    async def _check_senders(
        self,
        targets: StepTargets,
        ruled: set[tuple[Scope, str, RoutePlace]],
        retries: Mapping[Scope, WorkflowRetry],
        findings: WorkflowFindings,
    ) -> None:
        """A legacy sender is checked where its trigger was ever used and no rule replaces it; in a
        workspace without workflows, two targets for a channel are not a problem."""
        in_use = await self._in_use(sorted(self._senders))
        for scope, trigger in in_use:
            for place, sender in self._senders[trigger].items():
                if (scope, trigger, place) in ruled:
                    continue
                found = targets.find(place.channel, None)
                path = f"{_path(scope, trigger, place)}, legacy sender {sender.name}"
                if isinstance(found, str):
                    _keep(findings.problems, [Problem(path, found)])
                else:
                    _keep(findings.warnings, _shortfall(found, retries.get(scope, USUAL_RETRY)))
        if not in_use:
            _keep(findings.warnings, self._unused(targets))

    async def _in_use(self, triggers: Sequence[str]) -> list[tuple[Scope, str]]:
        found: list[tuple[Scope, str]] = []
        after: str | None = FIRST
        while triggers and after is not None:
            window = await self._store.read(
                workflow_checks.triggers_in_use(triggers, after, CHECKED_RULES_WINDOW)
            )
            found += window.found
            after = window.last
        return found

    def _unused(self, targets: StepTargets) -> Iterator[Problem]:
        """Before the first event: reported as a warning only."""
        for trigger, placed in sorted(self._senders.items()):
            for place, sender in placed.items():
                found = targets.find(place.channel, None)
                if isinstance(found, str) and targets.fitting(place.channel):
                    path = f"{_path(DEFAULT_SCOPE, trigger, place)}, legacy sender {sender.name}"
                    yield Problem(path, found)


def _shortfall(contract: Contract, retry: WorkflowRetry) -> Iterator[Problem]:
    short = shortfall(contract, retry)
    if short is not None:
        yield Problem(f"workflows: target {contract.submission_target}", short)


def _path(scope: Scope, trigger: str, place: RoutePlace) -> str:
    where = "" if scope == DEFAULT_SCOPE else f"workspace {scope.workspace_id}, "
    return f"workflows: {where}{trigger}, {place.channel.value} to {place.audience}"


def _keep(kept: list[Problem], more: Iterable[Problem]) -> None:
    """Each once, up to the number that is shown."""
    for each in more:
        if len(kept) < PROBLEMS_SHOWN_MAX and each not in kept:
            kept.append(each)
