"""Rules and steps of workflows: one by one, or all of them as one document."""

import asyncio
from typing import Annotated, Any

from fastapi import Query, Request, Response

from outrider.api import cursors
from outrider.api.bodies import require_json, strict_json
from outrider.api.context import NEEDS_REGISTRY, PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.models.common import Page
from outrider.api.models.workflows import (
    DiffAnswer,
    RuleAnswer,
    RulePut,
    RuleWithStepsAnswer,
    StepAnswer,
    StepPut,
    WorkflowsAnswer,
    rule_document,
    step_document,
    workflows_document,
)
from outrider.api.route import BodyKind, api_router, options
from outrider.bootstrap import Outrider
from outrider.documents.workflow import parse_rule, parse_step
from outrider.domain.errors import NotFound
from outrider.domain.keys import KeyScope, Principal
from outrider.domain.states import Channel
from outrider.domain.written_workflows import WrittenStep
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.rules import FIRST_PLACE, RuleRecord, StepRecord
from outrider.limits.api import ApiLimits
from outrider.limits.workflows import WORKFLOW_FILE_MAX_BYTES
from outrider.rendering.checker import check_template

router = api_router("workflows")

RuleFilter = Annotated[str | None, Query(alias="ruleId", description="Only steps of this rule.")]


def _written(schema: dict[str, Any], body_most: int = ApiLimits.body_max_bytes) -> dict[str, Any]:
    """Rules decide who receives messages, as the registry decides through which provider."""
    return options(
        scope=KeyScope.ADMIN,
        body=BodyKind.RAW,
        body_most=body_most,
        request_body={"required": True, "content": {"application/json": {"schema": schema}}},
    )


ADMIN = options(scope=KeyScope.ADMIN)
RULE = _written(rule_document())
STEP = _written(step_document(with_rule=False))
STEP_OF_RULE = _written(step_document(with_rule=True))
FILE = _written(workflows_document(), WORKFLOW_FILE_MAX_BYTES)


async def _given(request: Request) -> object:
    require_json(request)
    return await strict_json(await request.body())


@router.get(
    "/workflows",
    operation_id="getWorkflows",
    summary="Export all rules with their steps as one document",
)
async def export(outrider: Wired, asker: Asker) -> WorkflowsAnswer:
    return WorkflowsAnswer.of(*await outrider.rule_keeper.export(asker.scope))


@router.put(
    "/workflows",
    operation_id="applyWorkflows",
    summary="Apply a document of rules in one transaction and return the changes",
    dependencies=[NEEDS_REGISTRY],
    openapi_extra=dict(FILE),
)
async def apply(
    request: Request,
    outrider: Wired,
    asker: Asker,
    prune: Annotated[
        bool, Query(description="Also remove rules and steps that are not in the document.")
    ] = False,
    dry_run: Annotated[
        bool, Query(alias="dryRun", description="Only return what would change.")
    ] = False,
    expected: Annotated[
        str | None,
        Query(
            pattern="^[0-9a-f]{64}$",
            description="The `fingerprint` of the approved diff. Refuses a diff that has"
            " changed since.",
        ),
    ] = None,
) -> DiffAnswer:
    require_json(request)
    file = await outrider.document_reader.workflows(asker.scope, await request.body())
    keeper = outrider.rule_keeper
    if dry_run:
        found = await keeper.plan(asker.scope, file.rules, prune=prune, policies=file.policies)
        return DiffAnswer.of(found, applied=False)
    found = await keeper.apply(
        asker.scope, file.rules, asker.actor, prune=prune, policies=file.policies, expected=expected
    )
    return DiffAnswer.of(found, applied=True)


@router.get("/workflows/rules", operation_id="listRules", summary="List rules by trigger")
async def list_rules(
    outrider: Wired,
    asker: Asker,
    trigger: Annotated[str | None, Query(max_length=64)] = None,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[RuleAnswer]:
    begin = FIRST_PLACE
    if after is not None:
        after_trigger, channel, audience = cursors.decode(after, 3)
        begin = after_trigger, channel, audience
    found: list[RuleRecord] = []
    if trigger is None or trigger.isprintable():
        found = await outrider.rule_keeper.rules_page(asker.scope, begin, limit, trigger)
    last = found[-1].rule if len(found) == limit else None
    return Page(
        items=[RuleAnswer.of(each) for each in found],
        next=cursors.encode(last.trigger, last.channel.value, last.audience) if last else None,
    )


@router.get(
    "/workflows/rules/{rule_id}", operation_id="getRule", summary="Get a rule with all its steps"
)
async def show_rule(rule_id: str, outrider: Wired, asker: Asker) -> RuleWithStepsAnswer:
    return RuleWithStepsAnswer.of_both(await outrider.rule_keeper.rule(asker.scope, rule_id))


@router.put(
    "/workflows/rules",
    operation_id="putRule",
    summary="Create or change the rule for a trigger, channel and audience",
    responses={201: {"model": RulePut, "description": "It was created."}},
    openapi_extra=dict(RULE),
)
async def put_rule(request: Request, response: Response, outrider: Wired, asker: Asker) -> RulePut:
    written = parse_rule(await _given(request))
    record, is_new = await outrider.rule_keeper.put_rule(asker.scope, written, asker.actor)
    response.status_code = 201 if is_new else 200
    return RulePut.of(record)


@router.put(
    "/workflows/rules/{rule_id}",
    operation_id="replaceRule",
    summary="Change a rule; its steps stay as they are",
    openapi_extra=dict(RULE),
)
async def replace_rule(rule_id: str, request: Request, outrider: Wired, asker: Asker) -> RulePut:
    await outrider.rule_keeper.rule(asker.scope, rule_id)
    written = parse_rule(await _given(request), rule_id)
    record, _ = await outrider.rule_keeper.put_rule(asker.scope, written, asker.actor, rule_id)
    return RulePut.of(record)


@router.delete(
    "/workflows/rules/{rule_id}",
    status_code=204,
    operation_id="deleteRule",
    summary="Delete a rule and its steps; messages already sent stay on record",
    openapi_extra=dict(ADMIN),
)
async def delete_rule(rule_id: str, outrider: Wired, asker: Asker) -> None:
    await outrider.rule_keeper.delete_rule(asker.scope, rule_id, asker.actor)


@router.get(
    "/workflows/steps",
    operation_id="listSteps",
    summary="List workflow steps of one rule in order, or of all rules, oldest first",
)
async def list_steps(
    outrider: Wired,
    asker: Asker,
    rule_id: RuleFilter = None,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[StepAnswer]:
    keeper = outrider.rule_keeper
    if rule_id is None:
        found = await keeper.steps_page(asker.scope, cursors.id_after(after, FIRST), limit)
    else:
        found = list((await keeper.rule(asker.scope, rule_id)).steps)
        if after is not None:
            begin = await keeper.step(asker.scope, cursors.id_after(after, FIRST))
            found = [each for each in found if _in_order(each) > _in_order(begin)]
        found = found[:limit]
    return Page(
        items=[StepAnswer.of(each) for each in found],
        next=cursors.encode(found[-1].step.id) if len(found) == limit else None,
    )


def _in_order(record: StepRecord) -> tuple[Any, ...]:
    return record.step.step_order, record.step.created_at, record.step.id


@router.get("/workflows/steps/{step_id}", operation_id="getStep", summary="Get a workflow step")
async def show_step(step_id: str, outrider: Wired, asker: Asker) -> StepAnswer:
    return StepAnswer.of(await outrider.rule_keeper.step(asker.scope, step_id))


@router.post(
    "/workflows/steps",
    status_code=201,
    operation_id="createStep",
    summary="Add a workflow step to a rule, even if one with the same order exists",
    dependencies=[NEEDS_REGISTRY],
    openapi_extra=dict(STEP_OF_RULE),
)
async def create_step(request: Request, outrider: Wired, asker: Asker) -> StepPut:
    rule_id, written = await _step_of_rule(request, outrider, asker)
    record, _ = await outrider.rule_keeper.put_step(
        asker.scope, rule_id, written, asker.actor, is_another=True
    )
    return StepPut.of(record)


@router.put(
    "/workflows/steps",
    operation_id="putStep",
    summary="Create or change the workflow step of a rule and order",
    responses={201: {"model": StepPut, "description": "It was created."}},
    dependencies=[NEEDS_REGISTRY],
    openapi_extra=dict(STEP_OF_RULE),
)
async def put_step(request: Request, response: Response, outrider: Wired, asker: Asker) -> StepPut:
    rule_id, written = await _step_of_rule(request, outrider, asker)
    record, is_new = await outrider.rule_keeper.put_step(asker.scope, rule_id, written, asker.actor)
    response.status_code = 201 if is_new else 200
    return StepPut.of(record)


@router.put(
    "/workflows/steps/{step_id}",
    operation_id="replaceStep",
    summary="Change a workflow step; it stays with its rule",
    dependencies=[NEEDS_REGISTRY],
    openapi_extra=dict(STEP),
)
async def replace_step(step_id: str, request: Request, outrider: Wired, asker: Asker) -> StepPut:
    keeper = outrider.rule_keeper
    rule_id = (await keeper.step(asker.scope, step_id)).step.rule_id
    rule = (await keeper.rule(asker.scope, rule_id)).record.rule
    given = await _given(request)
    stays = isinstance(given, dict) and given.get("ruleId") not in (None, rule_id)
    written = await _parsed(
        given,
        rule.channel,
        "cannot be changed: a step stays with its rule" if stays else None,
        step_id,
    )
    record, _ = await keeper.put_step(asker.scope, rule_id, written, asker.actor, step_id=step_id)
    return StepPut.of(record)


@router.delete(
    "/workflows/steps/{step_id}",
    status_code=204,
    operation_id="deleteStep",
    summary="Delete a workflow step; messages already sent stay on record",
    openapi_extra=dict(ADMIN),
)
async def delete_step(step_id: str, outrider: Wired, asker: Asker) -> None:
    await outrider.rule_keeper.delete_step(asker.scope, step_id, asker.actor)


async def _step_of_rule(
    request: Request, outrider: Outrider, asker: Principal
) -> tuple[str, WrittenStep]:
    """The id of the rule that the body names, and its step; a bad rule is one problem of many."""
    given = await _given(request)
    rule_id = given.get("ruleId") if isinstance(given, dict) else None
    channel, problem = None, None
    if not isinstance(rule_id, str):
        problem = "is required" if rule_id is None else "should be the ID of a rule"
    else:
        try:
            channel = (await outrider.rule_keeper.rule(asker.scope, rule_id)).record.rule.channel
        except NotFound as error:
            problem = error.message
    return str(rule_id), await _parsed(given, channel, problem)


async def _parsed(
    given: object, channel: Channel | None, problem: str | None, step_id: str | None = None
) -> WrittenStep:
    return await asyncio.to_thread(
        parse_step,
        given,
        check_template=check_template,
        rule_channel=channel,
        rule_problem=problem,
        step_id=step_id,
    )
