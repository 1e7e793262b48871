"""`outrider event`: here and asked of a server, one event by flags and many by a file."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from outrider.cli.app import app
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.limits.api import ApiLimits
from outrider.limits.workflows import EMITTED_AT_ONCE
from tests.support.api_inside import serving
from tests.support.workflows import Office, email, office

Invoke = Callable[..., Awaitable[Result]]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Office]:
    async with office(f"sqlite:///{tmp_path}/outrider.db", tmp_path) as made:
        yield made


@pytest.fixture
def here(desk: Office, tmp_path: Path) -> Invoke:
    registry = str(tmp_path / "registry.json")
    return lambda *arguments, **given: invoked(
        "--database", desk.database, "--registry", registry, *arguments, **given
    )


async def invoked(*arguments: str, **given: Any) -> Result:
    """In a thread: the command has a loop of its own."""
    return await asyncio.to_thread(CliRunner().invoke, app, arguments, **given)


def answer(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def text(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def lines(*events: object) -> str:
    return "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in events)


def event(event_id: str, trigger: str = "quote_rejected", **told: Any) -> dict[str, Any]:
    return {"eventId": event_id, "trigger": trigger, **told}


async def test_one_event_by_flags_is_shown_listed_explained_and_routed_again(
    desk: Office, here: Invoke
) -> None:
    await desk.rule("quote_rejected", Channel.EMAIL, email(body="{{ number }}"))
    told = (
        "event", "emit", "--trigger", "quote_rejected", "--event-id", "q/17",
        "--lead", '{"id": "lead-1", "email": "ada@example.test"}',
    )  # fmt: skip
    made = answer(await here(*told, "--json"))
    assert (made["eventId"], made["status"], made["new"]) == ("q/17", "received", True)
    assert "already known q/17" in text(await here(*told))
    await desk.outrider.event_router.route_due()
    assert "`number` is undefined" in text(await here("event", "show", "q/17"))
    assert "q/17" in text(await here("event", "list", "--status", "failed"))
    assert "no events" in text(await here("event", "list", "--trigger", "quote_sent"))
    assert "outrider event reroute" in text(await here("event", "explain", "q/17"))
    await desk.rule("quote_rejected", Channel.EMAIL, email(body="Sorry"))
    assert "routed again q/17" in text(await here("event", "reroute", "q/17"))
    await desk.outrider.event_router.route_due()
    refused = await here("event", "reroute", "q/17")
    assert refused.exit_code == 1
    assert "event 'q/17' has no failed routes" in refused.stderr
    shown = answer(await here("event", "show", "q/17", "--json"))
    assert [item["status"] for item in shown["items"]] == ["pending"]
    told_of_one = text(await here("event", "explain", "q/17", "--recipient", "ADA@example.test"))
    assert "lead-1 (ada@example.test) is not finished yet." in told_of_one
    nobody = answer(await here("event", "explain", "q/17", "--recipient", "bo", "--json"))
    assert "Nothing was planned for bo" in nobody["sentences"][-1]
    [item] = shown["items"]
    # An event's item is one of the ledger's, so whoever explains those explains it.
    of_item = text(await here("run", "explain", item["outboxId"]))
    assert "It was caused by the event q/17 (quote_rejected), by step 1 of its rule." in of_item
    assert (await here("run", "explain", "none")).exit_code == 1


async def test_many_lines_are_taken_and_each_bad_one_is_reported_with_its_number(
    here: Invoke, tmp_path: Path
) -> None:
    count = 2 * EMITTED_AT_ONCE + 3
    told: list[object] = [event(f"e-{number}") for number in range(count)]
    told[1] = event("e-1", "quote_lost")
    told[3] = "{nonsense"
    told[7] = event("e-7", subject={"lead": 1})
    told[9] = event("e-8")
    told[11] = event("e-8", variables={"other": True})
    told[EMITTED_AT_ONCE + 1] = event("a\nb")
    told[-1] = event("", "quote_lost")
    file = tmp_path / "events.ndjson"
    file.write_text("\n" + lines(*told) + "\n")
    result = await here("event", "emit", str(file))
    assert result.exit_code == 1
    refused = {2, 4, 8, 12, EMITTED_AT_ONCE + 2, count}
    found = [line for line in result.stderr.splitlines() if "refused line" in line]
    assert {int(line.split()[2].rstrip(":")) - 1 for line in found} == refused
    assert "trigger: 'quote_lost' is not a known trigger" in result.stderr
    assert "subject.lead: should be" in result.stderr
    assert "already emitted with a different" in result.stderr
    new = count - len(refused) - 1
    assert f"{new:,} received, 1 already known, {len(refused)} refused" in result.stdout
    again = await here("event", "emit", str(file), "--json")
    assert again.exit_code == 1
    tally = json.loads(again.stdout.splitlines()[-1])
    assert (tally["new"], tally["known"], tally["success"]) == (0, new + 1, False)
    assert {each["line"] - 1 for each in tally["refused"]} == refused


async def test_a_first_line_that_was_cut_swallows_no_others(here: Invoke) -> None:
    good = [json.dumps(event(f"cut-{number}")) for number in (2, 3)]
    lines = '{"eventId": "cut-1", "trigger":\n' + "\n".join(good) + "\n"
    result = await here("event", "emit", "-", "--json", input=lines)
    tally = json.loads(result.stdout)
    assert (tally["new"], [each["line"] for each in tally["refused"]]) == (2, [1])


async def test_an_id_that_looks_like_markup_is_shown_as_it_is(desk: Office, here: Invoke) -> None:
    await desk.emit("quote_rejected", event_id="order[/17]")
    result = await here("event", "show", "order[/17]")
    assert result.exit_code == 0
    assert "order[/17]" in result.stdout


async def test_a_file_may_be_one_object_over_many_lines_and_come_from_standard_input(
    desk: Office, here: Invoke
) -> None:
    pretty = json.dumps(event("p-1", variables={"a": [1, 2]}), indent=2)
    assert answer(await here("event", "emit", "-", "--json", input=pretty)) == {
        "new": 1, "known": 0, "refused": [], "success": True,
    }  # fmt: skip
    told = await desk.outrider.event_intake.contents(DEFAULT_SCOPE, "p-1")
    assert json.loads(told.variables) == {"a": [1, 2]}
    for given, why in (
        ("", "no events"),
        ("[1]\n", "should be"),
        ("x" * 1_100_000, "bytes"),
    ):
        result = await here("event", "emit", "-", input=given)
        assert result.exit_code == 1
        assert why in result.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("emit",), "--trigger"),
        (("emit", "f.json", "--trigger", "x"), "not both"),
        (("emit", "none.json"), "cannot be read"),
        (("emit", "--trigger", "quote_sent", "--event-id", "a", "--lead", "x"), "--lead is not"),
        (("emit", "--trigger", "Quote", "--event-id", "a"), "trigger"),
        (("show", "none"), "there is no event 'none'"),
        (("explain", "none"), "there is no event 'none'"),
        (("reroute", "none"), "there is no event 'none'"),
    ],
)
async def test_a_wrong_argument_is_reported(
    here: Invoke, arguments: tuple[str, ...], why: str
) -> None:
    result = await here("event", *arguments)
    assert result.exit_code in (1, 2)
    assert why in result.stderr


async def test_a_server_is_asked_the_same(
    desk: Office, here: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(desk.outrider, ApiLimits()) as inside:
        monkeypatch.setenv("OUTRIDER_KEY", inside.key)
        url = f"http://127.0.0.1:{inside.address[1]}"

        async def there(*arguments: str) -> Result:
            return await invoked("--server", url, *arguments)

        flags = ("--trigger", "quote_rejected", "--event-id", "a/explain", "--json")
        assert answer(await there("event", "emit", *flags))["new"] is True
        assert answer(await there("event", "emit", *flags))["new"] is False
        file = tmp_path / "events.ndjson"
        file.write_text(lines(event("b"), event("c", "quote_lost"), event("a/explain"), "[]"))
        result = await there("event", "emit", str(file))
        assert result.exit_code == 1
        assert "1 received, 1 already known, 2 refused" in result.stdout
        assert "refused line 2: trigger: 'quote_lost' is not a known" in result.stderr
        while await desk.outrider.event_router.route_due():
            pass
        await desk.until(lambda _: True)
        assert "has no failed routes" in (await there("event", "reroute", "a/explain")).stderr
        for command in (
            ("event", "show", "a/explain"),
            ("event", "explain", "a/explain"),
            ("event", "list"),
        ):
            assert answer(await there(*command, "--json")) == answer(await here(*command, "--json"))
