"""`outrider history`: the mirror of run events in a database for analysis."""

from typing import Annotated

import typer
from rich.markup import escape

from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, err, out, print_json, print_rows
from outrider.cli.documents import Document
from outrider.cli.session import execute
from outrider.domain.bus_queues import HISTORY
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import RunId, is_uuid
from outrider.domain.times import rfc3339
from outrider.kernel.runs.history_backfiller import Backfilled
from outrider.kernel.runs.history_verifier import Agreement, RunComparison

app = typer.Typer(no_args_is_help=True, help="History: run events mirrored for analysis.")

SHOWN = 20


@app.command()
def status(context: typer.Context, as_json: Json = False) -> None:
    """Show how far behind the history is, and the last error."""

    async def here(outrider: Outrider) -> Document:
        _ = outrider.history
        found = await outrider.bus_keeper.sinks()
        sink = next(each for each in found if each.name == HISTORY)
        lag = 0.0
        if sink.oldest_at is not None:
            lag = max(0.0, (outrider.clock.now() - sink.oldest_at).total_seconds())
        return {
            "history": outrider.settings.history,
            "waiting": sink.waiting,
            "oldestWaitingAt": None if sink.oldest_at is None else rfc3339(sink.oldest_at),
            "lagSeconds": round(lag, 3),
            "written": sink.published,
            "failed": sink.failed,
            "deadLetters": sink.dead_letters,
            "lastError": await outrider.bus_keeper.last_error(HISTORY),
            "relay": sink.owner,
        }

    found = execute(context, here, as_json=as_json)
    if as_json:
        print_json(found)
        return
    out.print(
        texts.History.STATUS.format(
            history=escape(found["history"]), waiting=found["waiting"], lag=found["lagSeconds"],
            written=found["written"], failed=found["failed"], letters=found["deadLetters"],
        )
    )  # fmt: skip
    if found["lastError"] is not None:
        out.print(texts.History.LAST_ERROR.format(error=escape(found["lastError"])))


@app.command()
def setup(context: typer.Context, as_json: Json = False) -> None:
    """Create the history's tables where they are missing.

    For Snowflake, deploy/snowflake/history.sql also creates roles with the rights they need.
    """

    async def here(outrider: Outrider) -> None:
        await outrider.history.set_up()

    execute(context, here, as_json=as_json)
    if as_json:
        print_json({"success": True})
    else:
        out.print(texts.History.SET_UP)


@app.command()
def backfill(context: typer.Context, as_json: Json = False) -> None:
    """Write runs from before the history was switched on. Safe to repeat, and to interrupt."""

    def shown(done: Backfilled) -> None:
        if done.runs % SHOWN == 0 and not as_json:
            err.print(texts.History.PROGRESS.format(runs=done.runs, events=done.events))

    async def here(outrider: Outrider) -> Backfilled:
        return await outrider.history_backfiller.backfill(shown)

    done = execute(context, here, as_json=as_json)
    if as_json:
        print_json(
            {"runs": done.runs, "filled": done.filled, "events": done.events, "success": True}
        )
    else:
        out.print(
            texts.History.BACKFILLED.format(runs=done.runs, filled=done.filled, events=done.events)
        )


@app.command()
def verify(
    context: typer.Context,
    run_id: Annotated[
        str | None, typer.Option("--run", metavar="ID", help="Only this run.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare the history with the log, event by event, by hashes of their content.

    Exits with 1 if a run is incomplete or differs.
    """

    async def here(outrider: Outrider) -> list[RunComparison]:
        if run_id is not None and not is_uuid(run_id):
            raise InvalidInput(texts.History.NOT_A_RUN)
        only = None if run_id is None else RunId(run_id)
        return [each async for each in outrider.history_verifier.compare(only)]

    compared = execute(context, here, as_json=as_json)
    counts = {each: sum(run.agreement is each for run in compared) for each in Agreement}
    ok = not (counts[Agreement.INCOMPLETE] or counts[Agreement.DIFFERS])
    if as_json:
        print_json({"runs": [_document(each) for each in compared], "success": ok})
    else:
        _print(compared, counts, ok=ok)
    if not ok:
        raise typer.Exit(1)


def _print(compared: list[RunComparison], counts: dict[Agreement, int], *, ok: bool) -> None:
    others = [each for each in compared if each.agreement is not Agreement.SAME]
    if others:
        print_rows(
            ["run", "history", "events in log", "in history", "first difference"],
            [
                (each.run_id, each.agreement.value, each.log_events, each.history_events,
                 each.different[0] if each.different else None)
                for each in others[:SHOWN]
            ],
            "",
        )  # fmt: skip
    events = sum(each.history_events for each in compared)
    out.print(
        texts.History.COMPARED.format(
            runs=len(compared),
            events=events,
            same=counts[Agreement.SAME],
            behind=counts[Agreement.BEHIND],
            incomplete=counts[Agreement.INCOMPLETE],
            differs=counts[Agreement.DIFFERS],
        )
    )
    if counts[Agreement.INCOMPLETE]:
        out.print(texts.History.BACKFILL_HINT)
    if ok:
        out.print(texts.History.AGREES)


def _document(each: RunComparison) -> Document:
    return {
        "runId": each.run_id,
        "agreement": each.agreement.value,
        "logEvents": each.log_events,
        "historyEvents": each.history_events,
        "logHash": each.log_hash,
        "historyHash": each.history_hash,
        "different": list(each.different[:SHOWN]),
    }
