"""`outrider campaign`: create, list, status, watch; its controls are in `campaign_controls`.

Every command shows the API's own documents, made here or requested from a server.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape

from outrider.api.models.campaigns import CampaignCreated, CampaignLine
from outrider.api.models.phases import CampaignStatus
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import (
    Json,
    accounting_of,
    err,
    out,
    print_blockers,
    print_deliveries,
    print_json,
    print_rows,
    shown,
)
from outrider.cli.documents import Document, document_of
from outrider.cli.phase_words import (
    campaign_word,
    launch_word,
    next_control,
    state_word,
    success_word,
    why,
)
from outrider.cli.remote import Remote
from outrider.cli.session import actor, execute
from outrider.cli.watching import progress_bar, watch_phase
from outrider.documents.campaign import parse_campaign
from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import Conflict, InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId
from outrider.domain.rollouts import RolloutState
from outrider.domain.states import PhaseState
from outrider.kernel.transactions.overview import overview_page
from outrider.kernel.transactions.paging import LAST
from outrider.kernel.transactions.rollouts import BY_PLAN
from outrider.kernel.transactions.run_requests import HeldFor
from outrider.rendering.checker import check_template

app = typer.Typer(
    no_args_is_help=True, help="Create campaigns, control them, and see their status."
)

Id = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Campaign ID.")]
Phase = Annotated[
    str | None,
    typer.Argument(
        metavar="[PHASE]", help="Defaults to the phase that is running, or the next one."
    ),
]
MEDIA_TYPES = {".csv": "text/csv"}
NDJSON = "application/x-ndjson"


@app.command()
def create(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The campaign as JSON; see examples/campaign.json.")],
    as_json: Json = False,
) -> None:
    """Create a campaign from FILE. If it has mistakes, nothing is created and all of them are
    listed.
    """

    async def here(outrider: Outrider) -> Document:
        document = parse_campaign(
            _read(file),
            check_template=check_template,
            source_root=file.parent,
            known_phases=outrider.known_phases,
        )
        definition = document.definition
        with progress_bar() as progress:
            task = progress.add_task(texts.Campaign.IMPORTING_RECIPIENTS, total=None, note="")
            campaign_id, size = await outrider.deployer.create(
                DEFAULT_SCOPE,
                definition,
                document.recipients(),
                actor(),
                lambda imported: progress.update(task, completed=imported),
            )
        warnings = await outrider.previewer.warnings(campaign_id, definition.texts, size)
        return document_of(
            CampaignCreated(
                campaign_id=campaign_id,
                name=definition.name,
                recipients=size,
                phases=list(definition.phases),
                warnings=warnings,
            )
        )

    created = execute(context, here, as_json=as_json, remote=lambda server: _send(server, file))
    if as_json:
        print_json(created)
        return
    campaign_id = created["campaignId"]
    out.print(
        texts.Campaign.CREATED.format(campaign_id=campaign_id, recipients=created["recipients"])
    )
    for warning in created["warnings"]:
        err.print(texts.Campaign.WARNING.format(warning=shown(warning)))
    out.print(texts.Campaign.NEXT_START.format(campaign_id=campaign_id), style="dim")


async def _send(server: Remote, file: Path) -> Document:
    """A file that the campaign names is on this machine, so it is uploaded after the campaign."""
    raw = _read(file)
    try:
        given: Any = msgspec.json.decode(raw)
    except msgspec.MsgspecError:
        given = None
    source = None
    if isinstance(given, dict) and isinstance(given.get("audience"), dict):
        source = given["audience"].get("source")
    if source is None:
        return await server.send("campaigns", content=raw, media_type="application/json")
    path = file.parent / str(source)
    if not path.is_file():
        raise InvalidInput(texts.Campaign.NO_AUDIENCE_FILE.format(path=path))
    given["audience"] = {"recipients": []}
    created = await server.post("campaigns", json=given)
    media_type = MEDIA_TYPES.get(path.suffix.lower(), NDJSON)
    added = await server.upload(
        "campaigns", created["campaignId"], "audience", file=path, media_type=media_type
    )
    return {**created, "recipients": added["recipients"]}


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidInput(
            texts.Campaign.CANNOT_BE_READ.format(file=file, strerror=error.strerror)
        ) from error


@app.command(name="list")
def list_campaigns(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number to show.")] = 100,
    as_json: Json = False,
) -> None:
    """List campaigns, newest first."""

    async def here(outrider: Outrider) -> Document:
        page = await outrider.store.read(overview_page(DEFAULT_SCOPE, LAST, limit))
        items = [document_of(CampaignLine.of(campaign)) for campaign in page.campaigns]
        return {"items": items, "next": page.next}

    page = execute(
        context, here, as_json=as_json, remote=lambda server: server.get("campaigns", limit=limit)
    )
    if as_json:
        print_json(page)
        return
    print_rows(
        ["campaign", "name", "recipients", "state", "launch", "created"],
        [
            (line["campaignId"], line["name"], f"{line['recipients']:,}", campaign_word(line),
             launch_word(line), line["createdAt"][:16].replace("T", " "))
            for line in page["items"]
        ],
        texts.Campaign.NONE,
    )  # fmt: skip


@app.command()
def status(context: typer.Context, campaign_id: Id, as_json: Json = False) -> None:
    """Show a campaign's phases, their progress and their accounting."""
    snapshot = execute(
        context,
        lambda outrider: snapshot_of(outrider, campaign_id),
        as_json=as_json,
        remote=lambda server: server.get("campaigns", campaign_id, "status"),
    )
    if as_json:
        print_json(snapshot)
        return
    out.print(
        texts.Campaign.HEADING.format(
            name=escape(snapshot["name"]), recipients=snapshot["recipients"]
        )
    )
    phases = [(name, snapshot["phases"][name]) for name in snapshot["phaseOrder"]]
    print_rows(
        ["phase", "state", "progress", "run", "reason"],
        [
            (name, state_word(phase), f"{phase['progressPercentage']:.0f} %", phase["runId"],
             why(phase))
            for name, phase in phases
        ],
        texts.Campaign.NO_PHASES,
    )  # fmt: skip
    for name, phase in phases:
        if phase["accounting"]:
            print_accounting(name, phase)
        print_rollout(phase["rollout"])
        print_blockers(phase["blockers"])
    if (command := next_control(snapshot)) is not None:
        action, phase = command
        out.print(
            texts.Campaign.NEXT_CONTROL.format(action=action, campaign_id=campaign_id, phase=phase),
            style="dim",
        )


@app.command(name="watch")
def watch_command(
    context: typer.Context, campaign_id: Id, phase: Phase = None, as_json: Json = False
) -> None:
    """Follow a phase until it ends, is paused, or is only waiting for items in doubt."""

    async def follow(fetch: Callable[[], Awaitable[Document]]) -> Document:
        snapshot = await fetch()
        started = [
            name
            for name in snapshot["phaseOrder"]
            if snapshot["phases"][name]["state"] != PhaseState.NOT_STARTED
        ]
        chosen = phase or snapshot["controlPhase"] or (started[-1] if started else None)
        if chosen is None:
            raise Conflict(
                texts.Campaign.NOT_STARTED.format(campaign_id=campaign_id),
                hint=texts.Campaign.START_HINT.format(campaign_id=campaign_id),
            )
        return await watch_phase(fetch, chosen, snapshot["name"])

    seen = execute(
        context,
        lambda outrider: follow(lambda: snapshot_of(outrider, campaign_id)),
        as_json=as_json,
        remote=lambda server: follow(lambda: server.get("campaigns", campaign_id, "status")),
    )
    if as_json:
        print_json(seen)
        return
    print_ending(seen)


def first_phase(snapshot: Document, state: PhaseState) -> str | None:
    phases = snapshot["phases"]
    return next((name for name in snapshot["phaseOrder"] if phases[name]["state"] == state), None)


async def snapshot_of(outrider: Outrider, campaign_id: str) -> Document:
    found = await outrider.phase_controller.snapshot(DEFAULT_SCOPE, CampaignId(campaign_id))
    return document_of(CampaignStatus.of(found))


def print_waiting(seen: Document) -> None:
    """What to do next for a run that waits for a person."""
    if seen["waitsFor"] == HeldFor.APPROVAL:
        out.print(texts.Campaign.NEXT_APPROVE.format(run_id=seen["runId"]), style="dim")


def print_accounting(name: str, phase: Document) -> None:
    """For a retried launch, every message's final outcome first."""
    latest = name
    if phase["runs"] > 1 and phase["outcome"]:
        whole = texts.Campaign.ALL_RUNS.format(name=name, runs=phase["runs"])
        out.print(f"{whole}: {accounting_of(phase['outcome'])}")
        print_deliveries(phase["outcome"])
        latest = texts.Campaign.LATEST_RUN.format(name=name)
    out.print(f"{latest}: {accounting_of(phase['accounting'], success_word(name))}")
    print_deliveries(phase["accounting"])


def print_rollout(steps: Sequence[Document]) -> None:
    for step in steps:
        note = ""
        if step["state"] == RolloutState.HOLDING:
            note += texts.Campaign.ROLLOUT_HOLD_UNTIL.format(hold_until=step["holdUntil"])
        if step["haltedFor"]:
            rates = ", ".join(step["haltedFor"])
            note += texts.Campaign.ROLLOUT_HALTED_FOR.format(rates=rates)
        if step["releasedBy"] not in (None, BY_PLAN):
            note += texts.Campaign.ROLLOUT_RELEASED_BY.format(released_by=step["releasedBy"])
        out.print(
            texts.Campaign.ROLLOUT_STEP.format(
                step=step["step"], percent=step["percent"], items=step["items"],
                state=step["state"], note=escape(note),
            )
        )  # fmt: skip


def print_ending(seen: Document) -> None:
    out.print(
        texts.Campaign.ENDING.format(
            phase=seen["phase"], state=state_word(seen), run_id=seen["runId"]
        )
    )
    if not seen["accounting"]:
        return
    if seen["waitsFor"]:
        out.print(texts.Campaign.WAITS_FOR.format(waits_for=seen["waitsFor"]))
        print_waiting(seen)
        return
    print_accounting(seen["phase"], seen)
    print_blockers(seen["blockers"])
    if seen["accounting"]["inDoubt"]:
        out.print(texts.Campaign.NEXT_DOUBTS.format(run_id=seen["runId"]), style="dim")
    elif seen["phase"] == LAUNCH:
        out.print(texts.Campaign.NEXT_RUN_CERTIFICATE.format(run_id=seen["runId"]), style="dim")
