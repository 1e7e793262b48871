"""`outrider target`: the state of submission targets; pause, resume, reset or try one."""

from typing import Annotated

import typer
from rich.markup import escape

from outrider.api.target_lines import target_line, target_lines
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, out, print_json, print_rows
from outrider.cli.documents import Document, document_of
from outrider.cli.remote import Remote
from outrider.cli.session import execute
from outrider.domain.errors import NotFound
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.contracts.target_keeper import TargetKeeper

app = typer.Typer(
    no_args_is_help=True,
    help="Show, pause, resume, reset or try submission targets.",
)

ACTOR = "cli"

Name = Annotated[str, typer.Argument(help="A submission target from the registry.")]


@app.command("list")
def list_(context: typer.Context, as_json: Json = False) -> None:
    """List the targets, and whether calls to each are allowed (its door), since when, and why."""

    async def here(outrider: Outrider) -> Document:
        lines = await target_lines(outrider, DEFAULT_SCOPE)
        return {"targets": [document_of(each) for each in lines]}

    found = execute(context, here, as_json=as_json, remote=lambda server: server.get("targets"))
    if as_json:
        print_json(found)
        return
    print_rows(
        ["target", "door", "since", "next attempt", "open jobs", "in doubt", "reason"],
        [_row(each) for each in found["targets"]],
        texts.Target.EMPTY,
    )


@app.command()
def show(context: typer.Context, target: Name, as_json: Json = False) -> None:
    """Show one target: its contract, settings and current state."""

    async def here(outrider: Outrider) -> Document:
        return document_of(await target_line(outrider, DEFAULT_SCOPE, target))

    async def remote(server: Remote) -> Document:
        found = await server.get("targets")
        return _named(found["targets"], target)

    line = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json(line)
        return
    state = line["state"] or {}
    out.print(f"[bold]{escape(target)}[/bold]  {line['gatewayType']}  {line['gatewayUrl'] or ''}")
    out.print(texts.Target.DOOR.format(door=state.get("door", "open")))
    for label, name in (
        ("since", "since"), ("reason", "reason"), (texts.Target.OPENS_AT, "resumeAt"),
        (texts.Target.NEXT_PROBE, "probeAt"), (texts.Target.SLOTS, "slots"),
        (texts.Target.PAUSED_BY, "pausedBy"),
    ):  # fmt: skip
        if state.get(name) is not None:
            out.print(f"{label}: {escape(str(state[name]))}")
    execution = {name: each for name, each in line["execution"].items() if each is not None}
    out.print("execution: " + ", ".join(f"{name} {each}" for name, each in execution.items()))
    out.print(
        texts.Target.OPEN_JOBS_IN_DOUBT.format(open_jobs=line["openJobs"], in_doubt=line["inDoubt"])
    )


@app.command("try")
def try_(
    context: typer.Context,
    target: Name,
    to: Annotated[str, typer.Option(help="The address, phone number or token to send to.")],
    subject: Annotated[
        str, typer.Option(help="Its subject, where the channel has one.")
    ] = texts.TargetTry.SUBJECT,
    body: Annotated[str | None, typer.Option(help="Its text; default a line that says so.")] = None,
    seconds: Annotated[
        float, typer.Option(min=1, max=600, help="How long to wait for the outcome.")
    ] = 30.0,
    as_json: Json = False,
) -> None:
    """Send one real message through a target, and show the request with secrets masked, the
    provider's answer, what it means and what to fix.

    It is an intent like any other and has its row in the ledger. Exits with 1 unless it was
    accepted.
    """
    from outrider.cli.target_try import tried

    found = execute(
        context, lambda outrider: tried(outrider, target, to, subject, body, seconds),
        as_json=as_json,
    )  # fmt: skip
    if as_json:
        print_json(found)
    else:
        _print_trial(found)
    if not found["success"]:
        raise typer.Exit(1)


def _print_trial(found: Document) -> None:
    request, answer = found["request"], found["answer"]
    if request is None:
        out.print(texts.TargetTry.NOT_SHOWN)
    else:
        out.print(texts.TargetTry.REQUEST)
        lines = [f"{name}: {value}" for name, value in request["headers"].items()]
        out.print(escape("\n".join([request["line"], *lines, "", request["body"]])))
        status = answer["status"]
        is_http = status is not None
        out.print(
            texts.TargetTry.ANSWER.format(status=status) if is_http else texts.TargetTry.NO_ANSWER
        )
        out.print(escape(answer["body"]))
    out.print(texts.TargetTry.OUTCOME.format(outcome=found["outcome"]))
    message_id, reason, error = found["providerMessageId"], found["reason"], found["error"]
    if message_id is not None:
        out.print(escape(texts.TargetTry.MESSAGE_ID.format(message_id=message_id)))
    if reason is not None:
        out.print(escape(texts.TargetTry.REASON.format(reason=reason)))
    if error is not None:
        out.print(escape(texts.TargetTry.ERROR.format(error=error)))
    if found["fix"] is not None:
        out.print(escape(texts.TargetTry.FIX.format(fix=found["fix"])))
    _print_evidence(found["evidence"])
    out.print(texts.TargetTry.LEDGER.format(intent_id=found["intentId"]))


def _print_evidence(evidence: Document) -> None:
    key, look_up, receipts = evidence["key"], evidence["lookUp"], evidence["receipts"]
    lines = [
        texts.TargetTry.EVIDENCE,
        texts.TargetTry.KEY.format(key=key) if key else texts.TargetTry.NO_KEY,
        texts.TargetTry.LOOK_UP.format(look_up=look_up) if look_up else texts.TargetTry.NO_LOOK_UP,
        texts.TargetTry.RECEIPTS.format(receipts=receipts)
        if receipts
        else texts.TargetTry.NO_RECEIPTS,
    ]
    out.print(escape("\n".join(lines)))


@app.command()
def pause(context: typer.Context, target: Name, as_json: Json = False) -> None:
    """Stop sending through a target until it is resumed. Waiting messages keep their attempts."""
    _control(context, target, "pause", as_json=as_json)


@app.command()
def resume(context: typer.Context, target: Name, as_json: Json = False) -> None:
    """Resume sending through a target."""
    _control(context, target, "resume", as_json=as_json)


@app.command()
def reset(context: typer.Context, target: Name, as_json: Json = False) -> None:
    """Allow calls to a target again now and forget its failures, for example after fixing a
    provider.
    """
    _control(context, target, "reset", as_json=as_json)


def _control(context: typer.Context, target: str, action: str, *, as_json: bool) -> None:
    async def here(outrider: Outrider) -> Document:
        await target_line(outrider, DEFAULT_SCOPE, target)
        changed = await _done(outrider.target_keeper, target, action)
        line = document_of(await target_line(outrider, DEFAULT_SCOPE, target))
        return {
            "submissionTarget": target, "changed": changed, "state": line["state"], "success": True,
        }  # fmt: skip

    answer = execute(
        context, here, as_json=as_json,
        remote=lambda server: server.post("targets", target, action),
    )  # fmt: skip
    if as_json:
        print_json(answer)
        return
    door = (answer["state"] or {}).get("door", "open")
    changed = "" if answer["changed"] else " already"
    out.print(f"{escape(target)}:{changed} {door}")


async def _done(keeper: TargetKeeper, target: str, action: str) -> bool:
    controls = {"pause": keeper.pause, "resume": keeper.resume, "reset": keeper.reset}
    return await controls[action](DEFAULT_SCOPE, target, ACTOR)


def _named(lines: list[Document], target: str) -> Document:
    for each in lines:
        if each["submissionTarget"] == target:
            return each
    raise NotFound(texts.Target.NOT_FOUND.format(target=target))


def _row(line: Document) -> tuple[object, ...]:
    state = line["state"] or {}
    return (
        line["submissionTarget"], state.get("door", "open"), state.get("since"),
        state.get("resumeAt") or state.get("probeAt"), line["openJobs"], line["inDoubt"],
        state.get("reason"),
    )  # fmt: skip
