"""`outrider workflow`: apply rules and steps from a file after showing the diff; list, show,
delete.

Every command shows the API's own documents, made here or requested from a server.
"""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from outrider.api import cursors
from outrider.api.models.common import Page
from outrider.api.models.workflows import (
    DiffAnswer,
    RuleAnswer,
    RuleWithStepsAnswer,
    WorkflowsAnswer,
)
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import After, Json, fail, out, print_json, print_rows, shown
from outrider.cli.documents import Document, document_of
from outrider.cli.remote import Remote
from outrider.cli.session import actor, execute
from outrider.cli.workflow_diff_lines import changes_something, diff_lines, summary
from outrider.cli.workflow_policy import app as policy_app
from outrider.documents.workflow import load_workflow_file, parse_workflows
from outrider.documents.workflow_toml import toml_of
from outrider.domain.errors import InvalidInput, NotFound, OutriderError
from outrider.domain.ids import DEFAULT_SCOPE, is_uuid
from outrider.kernel.transactions.rules import FIRST_PLACE
from outrider.limits.api import ApiLimits
from outrider.rendering.checker import check_template

app = typer.Typer(no_args_is_help=True, help="Rules that turn domain events into messages.")
app.add_typer(policy_app, name="policy")

RuleName = Annotated[
    str, typer.Argument(metavar="RULE", help="Rule ID, or TRIGGER/CHANNEL/AUDIENCE.")
]


@app.command()
def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Rules and steps as TOML or JSON.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Also remove rules and steps that are not in the file.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Apply the rules and steps in FILE in one transaction, after showing the changes."""
    asks = not (yes or dry_run)
    if asks and (as_json or not sys.stdin.isatty()):
        raise typer.BadParameter(texts.Workflow.NEEDS_YES, param_hint="--yes")
    given = _loaded(file, as_json=as_json)

    def carried_out(*, look_only: bool, expected: str | None = None) -> Document:
        async def here(outrider: Outrider) -> Document:
            read = parse_workflows(given, check_template=check_template)
            keeper = outrider.rule_keeper
            if look_only:
                planned = await keeper.plan(
                    DEFAULT_SCOPE, read.rules, prune=prune, policies=read.policies
                )
                return document_of(DiffAnswer.of(planned, applied=False))
            done = await keeper.apply(
                DEFAULT_SCOPE, read.rules, actor(), prune=prune, policies=read.policies,
                expected=expected,
            )  # fmt: skip
            return document_of(DiffAnswer.of(done, applied=True))

        def remote(server: Remote) -> Awaitable[Document]:
            # Parsed here first: JSON would turn a date into a text and NaN into nothing.
            parse_workflows(given, check_template=lambda _: None)
            return server.put(
                "workflows", json=given, prune=_flag(prune), dryRun=_flag(look_only),
                expected=expected,
            )  # fmt: skip

        return execute(context, here, as_json=as_json, remote=remote)

    diff = carried_out(look_only=not yes)
    if asks and changes_something(diff):
        _print_diff(diff)
        typer.confirm("Apply?", abort=True)
        diff = carried_out(look_only=False, expected=diff["fingerprint"])
    elif not as_json:
        _print_diff(diff)
    if as_json:
        print_json(diff)
    elif diff["applied"]:
        out.print(texts.Workflow.APPLIED.format(summary=summary(diff, applied=True)))
    elif not changes_something(diff):
        out.print(texts.Workflow.NO_CHANGE)


def _print_diff(diff: Document) -> None:
    for line in diff_lines(diff):
        out.print(line)
    if changes_something(diff) and not diff["applied"]:
        out.print(summary(diff, applied=False))
    if diff["kept"]:
        out.print(texts.Workflow.KEPT, style="dim")


def _flag(said: bool) -> str | None:
    return "true" if said else None


def _loaded(file: Path, *, as_json: bool) -> object:
    try:
        return load_workflow_file(file.read_bytes(), file.name)
    except OSError as error:
        fail(
            InvalidInput(texts.Workflow.CANNOT_BE_READ.format(file=file, strerror=error.strerror)),
            as_json=as_json,
        )
    except OutriderError as error:
        fail(error, as_json=as_json)


@app.command(name="list")
def list_rules(
    context: typer.Context,
    trigger: Annotated[str | None, typer.Option(help="Show only rules for this trigger.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number to show.")] = 1000,
    after: After = None,
    as_json: Json = False,
) -> None:
    """List rules by trigger."""
    page = execute(
        context,
        lambda outrider: _page_here(outrider, trigger, after, limit),
        as_json=as_json,
        remote=lambda server: server.get(
            "workflows", "rules", trigger=trigger, limit=limit, after=after
        ),
    )
    if as_json:
        print_json(page)
        return
    print_rows(
        ["rule", "trigger", "channel", "audience", "enabled", "urgent"],
        [
            (each["id"], each["trigger"], each["channel"], each["audience"],
             "yes" if each["enabled"] else "no", "yes" if each["urgent"] else "")
            for each in page["items"]
        ],
        texts.Workflow.NONE,
    )  # fmt: skip
    if page["next"]:
        out.print(texts.Workflow.NEXT_PAGE.format(next=page["next"]), style="dim")


@app.command()
def show(context: typer.Context, rule: RuleName, as_json: Json = False) -> None:
    """Show a rule and its steps in order."""

    async def here(outrider: Outrider) -> Document:
        rule_id = await _id_here(outrider, rule)
        found = await outrider.rule_keeper.rule(DEFAULT_SCOPE, rule_id)
        return document_of(RuleWithStepsAnswer.of_both(found))

    async def remote(server: Remote) -> Document:
        return await server.get("workflows", "rules", await _id_there(server, rule))

    found = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json(found)
        return
    words = ["enabled" if found["enabled"] else texts.Workflow.DISABLED]
    words += ["urgent"] if found["urgent"] else []
    words += [texts.Workflow.TOPIC.format(topic=shown(found["topic"]))] if found["topic"] else []
    words += ["transactional"] if found["transactional"] else []
    place = f"{found['trigger']}/{found['channel']}/{found['audience']}"
    out.print(f"[bold]{shown(place)}[/bold]  {found['id']}  {', '.join(words)}")
    for step in found["steps"]:
        _print_step(step)
    if not found["steps"]:
        out.print(texts.Workflow.NO_STEPS, style="dim")


@app.command()
def delete(context: typer.Context, rule: RuleName, as_json: Json = False) -> None:
    """Delete a rule and its steps. Messages already sent stay on record."""

    async def here(outrider: Outrider) -> str:
        rule_id = await _id_here(outrider, rule)
        await outrider.rule_keeper.delete_rule(DEFAULT_SCOPE, rule_id, actor())
        return rule_id

    async def remote(server: Remote) -> str:
        rule_id = await _id_there(server, rule)
        await server.delete("workflows", "rules", rule_id)
        return rule_id

    rule_id = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json({"id": rule_id, "success": True})
    else:
        out.print(texts.Workflow.DELETED.format(rule=shown(rule)))


@app.command()
def export(context: typer.Context, as_json: Json = False) -> None:
    """Print all rules and steps in the format that `apply` reads: TOML, or JSON with --json."""

    async def here(outrider: Outrider) -> Document:
        return document_of(WorkflowsAnswer.of(*await outrider.rule_keeper.export(DEFAULT_SCOPE)))

    found = execute(context, here, as_json=as_json, remote=lambda server: server.get("workflows"))
    if as_json:
        print_json(found)
    else:
        sys.stdout.write(toml_of(found))
        sys.stdout.flush()


def _print_step(step: Document) -> None:
    target = (
        texts.Workflow.VIA.format(submission_target=step["submissionTarget"])
        if step["submissionTarget"]
        else ""
    )
    state = "" if step["enabled"] else "  disabled"
    out.print(
        shown(
            texts.Workflow.STEP.format(
                step_order=step["stepOrder"],
                channel=step["channel"],
                target=target,
                when=_when(step),
                state=state,
            )
        )
    )
    out.print(shown(f"  id {step['id']}"), style="dim")
    config = step["recipientConfig"]
    named = [name for name, value in config.items() if value is True]
    custom = [*config["customPhones"], *config["customEmails"]]
    out.print(shown(f"  to {', '.join([*named, *custom]) or 'nobody'}"))
    if step["subject"]:
        out.print(shown(texts.Workflow.SUBJECT.format(subject=step["subject"])))
    for line in step["body"].splitlines():
        out.print(shown(f"  | {line}"))


def _when(step: Document) -> str:
    collected = (
        texts.Workflow.DIGEST.format(digest_minutes=step["digestMinutes"])
        if step["digestMinutes"]
        else ""
    )
    relative = step["relativeTo"]
    if relative is not None:
        seconds = relative["offsetSeconds"]
        side = "before" if seconds < 0 else "after"
        past = texts.Workflow.IF_PAST.format(if_past=relative["ifPast"])
        return f"{abs(seconds):g} s {side} {relative['path']}{past}{collected}"
    return (
        texts.Workflow.AFTER_S.format(delay_seconds=step["delaySeconds"])
        if step["delaySeconds"]
        else texts.Workflow.IMMEDIATELY
    ) + collected


async def _page_here(
    outrider: Outrider, trigger: str | None, after: str | None, limit: int
) -> Document:
    begin = FIRST_PLACE
    if after is not None:
        after_trigger, channel, audience = cursors.decode(after, 3)
        begin = after_trigger, channel, audience
    found = await outrider.rule_keeper.rules_page(DEFAULT_SCOPE, begin, limit, trigger)
    last = found[-1].rule if len(found) == limit else None
    page = Page(
        items=[RuleAnswer.of(each) for each in found],
        next=cursors.encode(last.trigger, last.channel.value, last.audience) if last else None,
    )
    return document_of(page)


async def _id_here(outrider: Outrider, rule: str) -> str:
    return await _id_of(
        rule, lambda trigger: _page_here(outrider, trigger, None, ApiLimits.page_max)
    )


async def _id_there(server: Remote, rule: str) -> str:
    return await _id_of(
        rule,
        lambda trigger: server.get("workflows", "rules", trigger=trigger, limit=ApiLimits.page_max),
    )


async def _id_of(rule: str, page_of: Callable[[str], Awaitable[Document]]) -> str:
    """A workspace has no more rules than a page has room for."""
    if is_uuid(rule):
        return rule
    trigger, _, rest = rule.partition("/")
    for each in (await page_of(trigger))["items"]:
        if f"{each['channel']}/{each['audience']}" == rest:
            return str(each["id"])
    raise NotFound(texts.Workflow.NOT_FOUND.format(rule=rule), hint=texts.Workflow.NOT_FOUND_HINT)
