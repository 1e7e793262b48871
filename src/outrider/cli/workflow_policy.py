"""`outrider workflow policy`: when messages may go, and how often to one address."""

from pathlib import Path
from typing import Annotated

import typer

from outrider.api.models.policy import PolicyAnswer, PolicyPut
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, out, print_json, print_rows
from outrider.cli.documents import Document, document_of
from outrider.cli.session import actor, execute
from outrider.documents.policy import parse_policy
from outrider.documents.presets import presets
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.screen_policies import ScreenPolicies

app = typer.Typer(
    no_args_is_help=True, help="Quiet hours, the sending window, the frequency cap and retries."
)

PLACE = ("workflows", "policy")


@app.command()
def show(context: typer.Context, as_json: Json = False) -> None:
    """Show the policy in force."""

    async def here(outrider: Outrider) -> Document:
        return document_of(PolicyAnswer.of(await outrider.policy_keeper.get(DEFAULT_SCOPE)))

    policy = execute(context, here, as_json=as_json, remote=lambda server: server.get(*PLACE))
    _print(policy, as_json=as_json)


@app.command(name="set")
def replace(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The policy as JSON; `{}` removes all limits.")],
    as_json: Json = False,
) -> None:
    """Replace the policy with FILE. If it has mistakes, all are listed and nothing changes."""

    async def here(outrider: Outrider) -> Document:
        policies = _given(file)
        await outrider.policy_keeper.put(DEFAULT_SCOPE, policies, actor())
        return document_of(PolicyPut.of(policies))

    policy = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.put(*PLACE, json=_given(file).as_document()),
    )
    _print(policy, as_json=as_json)


def _print(policy: Document, *, as_json: bool) -> None:
    if as_json:
        print_json(policy)
        return
    print_rows(
        ["policy", "what", "channels"],
        [
            (name, words, ", ".join(section["channels"] or ["all"]))
            for name, words, section in _sections(policy)
        ],
        texts.WorkflowPolicy.NONE,
    )
    if policy["exempt"]:
        topics = ", ".join(policy["exempt"])
        out.print(texts.WorkflowPolicy.EXEMPT.format(topics=topics), soft_wrap=True)
    out.print(
        texts.WorkflowPolicy.RETRIES.format(summary=policy["retry"]["summary"]), soft_wrap=True
    )
    out.print(
        texts.WorkflowPolicy.TIME_ZONE.format(time_zone=policy["timeZone"]),
        style="dim",
    )


def _sections(policy: Document) -> list[tuple[str, str, Document]]:
    sections = []
    if quiet := policy["quietHours"]:
        sections.append(
            (texts.WorkflowPolicy.QUIET_HOURS, f"{quiet['from']} to {quiet['to']}", quiet)
        )
    given = policy["sendingWindow"]
    for window in given if isinstance(given, list) else [given] if given else []:
        when = f"{', '.join(window['days'])}: {window['from']} to {window['to']}"
        sections.append((texts.WorkflowPolicy.SENDING_WINDOW, when, window))
    for name in policy["presets"]:
        documented = presets()[name]
        channels = sorted(
            {each.value for window in documented.preset.windows for each in window.channels}
        )
        sections.append(
            (f"{texts.WorkflowPolicy.PRESET} {name}", documented.title, {"channels": channels})
        )
    if cap := policy["frequencyCap"]:
        many = texts.WorkflowPolicy.CAP.format(
            messages=cap["messages"], per_hours=cap["perHours"], when_reached=cap["whenReached"]
        )
        sections.append((texts.WorkflowPolicy.FREQUENCY_CAP, many, cap))
    return sections


def _given(file: Path) -> ScreenPolicies:
    try:
        return parse_policy(file.read_bytes())
    except OSError as error:
        raise InvalidInput(
            texts.WorkflowPolicy.CANNOT_BE_READ.format(file=file, strerror=error.strerror)
        ) from error
