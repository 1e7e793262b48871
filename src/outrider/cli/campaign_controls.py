"""The controls of `outrider campaign`: start, pause, resume, stop, retry and rerun its phases.

Without a named phase they act on the one the snapshot shows; the kernel decides what is allowed.
"""

from collections.abc import Callable
from typing import Annotated

import typer

from outrider.api.models.phases import ControlDone
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.campaign import (
    Id,
    Phase,
    app,
    first_phase,
    print_ending,
    print_waiting,
    snapshot_of,
)
from outrider.cli.console import Json, out, print_json
from outrider.cli.documents import Document, document_of
from outrider.cli.remote import Remote
from outrider.cli.session import actor, execute
from outrider.cli.watching import watch_phase
from outrider.cli.work import working
from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId
from outrider.domain.phases import STOPPED, Action
from outrider.domain.states import PhaseState
from outrider.kernel.transactions.phase_controls import Control, RerunScope

__all__ = ["app"]

Expected = Annotated[
    PhaseState | None,
    typer.Option("--expected-state", help="Refuse unless the phase is in this state."),
]

STEERING = {
    Action.PAUSE: texts.CampaignControls.PAUSE_HELP,
    Action.RESUME: texts.CampaignControls.RESUME_HELP,
    Action.STOP: texts.CampaignControls.STOP_HELP,
    Action.RETRY: texts.CampaignControls.RETRY_HELP,
}


def _command(action: Action) -> Callable[..., None]:
    def command(
        context: typer.Context,
        campaign_id: Id,
        phase: Phase = None,
        expected: Expected = None,
        as_json: Json = False,
    ) -> None:
        _steer(context, campaign_id, phase, action, expected, as_json)

    return command


@app.command()
def start(
    context: typer.Context,
    campaign_id: Id,
    phase: Phase = None,
    here: Annotated[
        bool, typer.Option("--work", help="Also run a worker here until the phase has ended.")
    ] = False,
    everything: Annotated[
        bool,
        typer.Option("--all", help="With --work: run this phase and all later ones, in order."),
    ] = False,
    expected: Expected = None,
    request_id: Annotated[
        str | None,
        typer.Option(
            help="Idempotency ID: repeating the command with the same ID returns the same run."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Start a phase, by default the next one. This creates a run whose jobs any worker can take."""
    if everything and not here:
        raise typer.BadParameter(texts.CampaignControls.ALL_NEEDS_WORK, param_hint="--all")

    async def local(outrider: Outrider) -> Document:
        if not here:
            return await _control(
                outrider,
                campaign_id,
                phase,
                Control(Action.START, actor(), expected, request_id=request_id),
            )
        async with working(outrider):
            return await _through(outrider, campaign_id, phase, everything, expected, as_json)

    async def remote(server: Remote) -> Document:
        if here:
            raise InvalidInput(
                texts.CampaignControls.WORK_IS_LOCAL,
                hint=texts.CampaignControls.WORK_IS_LOCAL_HINT,
            )
        body = _expecting(expected) | ({"runRequestId": request_id} if request_id else {})
        return await _ask(server, campaign_id, phase, Action.START, body)

    done = execute(context, local, as_json=as_json, remote=remote)
    if as_json:
        print_json({**done, "success": True})
    elif not here:
        _print_control(done)
        print_waiting(done)
        out.print(
            texts.CampaignControls.NEXT_WORK.format(campaign_id=campaign_id),
            style="dim",
        )


async def _through(
    outrider: Outrider,
    campaign_id: str,
    phase: str | None,
    everything: bool,
    expected: PhaseState | None,
    as_json: bool,
) -> Document:
    """Start a phase and see it through; then the next, if all are requested."""
    while True:
        control = Control(Action.START, actor(), expected)
        done = await _control(outrider, campaign_id, phase, control)
        if not as_json:
            # Printed at once: after an interrupt the user needs to know what continues without
            # them.
            _print_control(done)
        seen = await watch_phase(
            lambda: snapshot_of(outrider, campaign_id), done["phase"], done["phase"]
        )
        if not as_json:
            print_ending(seen)
        done = {**done, "state": seen["state"], "accounting": seen["accounting"]}
        snapshot = await snapshot_of(outrider, campaign_id)
        phase = first_phase(snapshot, PhaseState.NOT_STARTED)
        if not everything or phase is None or seen["state"] != PhaseState.COMPLETED:
            return done


@app.command()
def rerun(
    context: typer.Context,
    campaign_id: Id,
    phase: Phase = None,
    scope: Annotated[
        RerunScope | None,
        typer.Option(help="Who to run it for; by default those not reached by a partial run."),
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Confirm: everyone receives it again.")
    ] = False,
    expected: Expected = None,
    as_json: Json = False,
) -> None:
    """Run a completed phase again, for those not reached yet or for everyone."""
    _steer(context, campaign_id, phase, Action.RERUN, expected, as_json, scope, confirm)


def _steer(
    context: typer.Context,
    campaign_id: str,
    phase: str | None,
    action: Action,
    expected: PhaseState | None,
    as_json: bool,
    scope: RerunScope | None = None,
    confirm: bool = False,
) -> None:
    control = Control(action, actor(), expected, scope, confirm)
    body = _expecting(expected)
    if action is Action.RERUN:
        body |= {"scope": scope, "confirm": confirm}
    done = execute(
        context,
        lambda outrider: _control(outrider, campaign_id, phase, control),
        as_json=as_json,
        remote=lambda server: _ask(server, campaign_id, phase, action, body),
    )
    if as_json:
        print_json(done)
    else:
        _print_control(done, action)


async def _control(
    outrider: Outrider, campaign_id: str, phase: str | None, control: Control
) -> Document:
    chosen = phase or _meant(await snapshot_of(outrider, campaign_id), control.action)
    answer = await outrider.phase_controller.control(
        DEFAULT_SCOPE, CampaignId(campaign_id), chosen, control
    )
    return document_of(ControlDone.of(answer))


async def _ask(
    server: Remote, campaign_id: str, phase: str | None, action: Action, body: Document
) -> Document:
    if phase is None:
        phase = _meant(await server.get("campaigns", campaign_id, "status"), action)
    return await server.post("campaigns", campaign_id, "phases", phase, action.value, json=body)


def _meant(snapshot: Document, action: Action) -> str:
    """The default phase when none is named; the kernel decides whether it is allowed."""
    match action:
        case Action.START:
            found = snapshot["controlPhase"] or first_phase(snapshot, PhaseState.NOT_STARTED)
        case Action.RETRY:
            found = first_phase(snapshot, PhaseState.FAILED)
        case Action.STOP:
            found = snapshot["controlPhase"] or first_phase(snapshot, PhaseState.FAILED)
        case Action.RERUN:
            found = LAUNCH
        case _:
            found = snapshot["controlPhase"]
    return str(found or snapshot["phaseOrder"][0])


def _expecting(expected: PhaseState | None) -> Document:
    return {} if expected is None else {"expected_state": expected.value}


def _print_control(done: Document, action: Action = Action.START) -> None:
    state = STOPPED if done["changed"] and action is Action.STOP else done["state"]
    how = "[green]now[/green]" if done["changed"] else "already"
    run = texts.CampaignControls.IN_RUN.format(run_id=done["runId"]) if done["runId"] else ""
    if done["waitsFor"]:
        run += texts.CampaignControls.WAITS_FOR.format(waits_for=done["waitsFor"])
    out.print(f"{done['phase']} is {how} [bold]{state}[/bold]{run}")


for _action, _help in STEERING.items():
    app.command(name=_action.value, help=_help)(_command(_action))
