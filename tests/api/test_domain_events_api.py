"""Domain events over HTTP: taken once, shown, explained, and routed again."""

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
import pytest_asyncio
from yarl import URL

from outrider.domain.states import Channel
from outrider.limits.api import ApiLimits
from tests.support.api_inside import Inside, serving
from tests.support.raw_sql import raw_sql
from tests.support.workflows import LEAD, Office, email, office, whatsapp

pytestmark = pytest.mark.asyncio(loop_scope="module")

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Reply(NamedTuple):
    status: int
    json: Any

    @property
    def fields(self) -> dict[str, str]:
        return {each["path"]: each["message"] for each in self.json["error"]["fields"]}


class Server:
    def __init__(self, desk: Office, inside: Inside) -> None:
        self.desk = desk
        self._inside = inside

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> Reply:
        """The path is sent as it is written here."""
        url = URL(self._inside.url + path, encoded=True)
        given = {**self._inside.headers, **headers}
        # Whoever is refused for the size of its body hears so before it sends it.
        sent: dict[str, Any] = (
            {"data": body, "expect100": True} if isinstance(body, bytes) else {"json": body}
        )
        async with self._inside.session.request(method, url, headers=given, **sent) as answer:
            return Reply(answer.status, await answer.json(content_type=None))

    async def emit(self, event_id: str, trigger: str = "quote_rejected", **told: Any) -> Reply:
        return await self.ask("POST", "/events", {"eventId": event_id, "trigger": trigger, **told})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """With a worker, on SQLite: no SQL of these tests is of one store alone."""
    folder: Path = tmp_path_factory.mktemp("events")
    async with (
        office(f"sqlite:///{folder}/outrider.db", folder) as desk,
        serving(desk.outrider, ApiLimits(), run_worker=True) as inside,
    ):
        await desk.rule("quote_accepted", Channel.EMAIL, email())
        await desk.rule("quote_accepted", Channel.WHATSAPP, whatsapp(), enabled=False)
        yield Server(desk, inside)


async def settled(server: Server, event_id: str) -> dict[str, Any]:
    """The event once all of its messages have ended."""

    async def event() -> dict[str, Any]:
        shown: dict[str, Any] = (await server.ask("GET", f"/events/{quote(event_id, '')}")).json
        return shown

    while True:
        shown = await event()
        ended = all(item["status"] in ("succeeded", "failed") for item in shown["items"])
        if shown["status"] != "received" and ended:
            return shown
        await server.desk.until(lambda _: True)


async def test_an_event_is_new_once_and_then_known_and_then_in_conflict(server: Server) -> None:
    told: dict[str, Any] = {
        "variables": {"number": "17"},
        "occurredAt": "2026-03-01T10:00:00+01:00",
    }
    first = await server.emit("q-17", **told)
    assert first.status == 201
    assert first.json.keys() == {
        "eventId", "trigger", "occurredAt", "status", "routes", "error", "createdAt", "updatedAt",
    }  # fmt: skip
    assert (first.json["status"], first.json["routes"]) == ("received", [])
    assert first.json["occurredAt"] == "2026-03-01T09:00:00Z"
    again = await server.emit("q-17", **{**told, "occurredAt": "2026-03-01T09:00:00Z"})
    assert (again.status, again.json.keys()) == (200, first.json.keys())
    assert again.json["createdAt"] == first.json["createdAt"]
    other = await server.emit("q-17", variables={"number": "18"})
    assert (other.status, other.json["error"]["code"]) == (409, "IDEMPOTENCY_CONFLICT")


async def test_an_invalid_receipt_is_refused_with_its_fields(server: Server) -> None:
    unknown = await server.emit("u-1", "quote_lost")
    assert unknown.status == 400
    assert "is not a known trigger" in unknown.fields["trigger"]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"variables": {"a": _deep(40)}}, "variables"),
        ({"subject": {"lead": 1}}, "subject.lead"),
        ({"occurredAt": "soon"}, "occurredAt"),
    ]
    for told, path in wrong:
        assert list((await server.emit("u-2", **told)).fields) == [path]
    assert (await server.emit("a\nb")).fields.keys() == {"eventId"}
    assert (await server.emit("x" * 201)).fields.keys() == {"eventId"}
    assert (await server.ask("GET", "/events/u-2")).status == 404


def _deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


async def test_a_body_of_five_megabytes_is_refused(server: Server) -> None:
    raw = b'{"eventId": "big", "trigger": "quote_sent", "variables": {"x": "%s"}}' % (
        b"y" * 5_000_000
    )
    answer = await server.ask("POST", "/events", raw, **{"Content-Type": "application/json"})
    assert (answer.status, answer.json["error"]["code"]) == (413, "BODY_TOO_LARGE")
    # What the body may have, and the event may not, is the event's own mistake.
    large = await server.emit("big", variables={"x": "y" * 300_000})
    assert (large.status, list(large.fields)) == (400, ["variables"])


async def test_the_callers_trace_is_kept_with_the_event(server: Server) -> None:
    body = {"eventId": "traced", "trigger": "quote_rejected"}
    assert (await server.ask("POST", "/events", body, traceparent=TRACE)).status == 201
    await server.emit("untraced")
    async with raw_sql(server.desk.database) as raw:
        rows = await raw.run(
            "SELECT event_id, trace_parent FROM domain_events WHERE event_id LIKE '%traced'"
        )
    assert dict(rows) == {"traced": TRACE, "untraced": None}


async def test_an_event_is_shown_with_its_routes_and_messages(server: Server) -> None:
    subject = {"lead": LEAD}
    await server.emit("a-1", "quote_accepted", subject=subject, variables={"number": 1})
    shown = await settled(server, "a-1")
    assert (shown["subject"], shown["variables"]) == (subject, {"number": 1})
    decisions = {(each["channel"], each["audience"]): each for each in shown["routes"]}
    assert decisions["email", "lead"]["decision"] == "steps"
    assert decisions["whatsapp", "lead"]["decision"] == "suppressed"
    sent = next(item for item in shown["items"] if item["template"] == "email_send")
    assert sent.keys() == {
        "outboxId", "channel", "recipientId", "address", "status", "reason", "delivery", "waitsFor",
        "nextAttemptAt", "attempts", "template", "submissionTarget",
    }  # fmt: skip
    assert (sent["status"], sent["recipientId"], sent["attempts"]) == ("succeeded", "lead-1", 1)
    # The same as the view says, of all that there are.
    views = {row.id: row.status for row in await server.desk.notifications()}
    assert {item["outboxId"]: item["status"] for item in shown["items"]}.items() <= views.items()


async def test_an_event_is_explained_for_all_and_for_one(server: Server) -> None:
    await server.emit("a-2", "quote_accepted", subject={"lead": LEAD})
    shown = await settled(server, "a-2")
    told = (await server.ask("GET", "/events/a-2/explain")).json
    assert told["eventId"] == "a-2"
    text = "\n".join(told["sentences"])
    assert "Email to lead: the rule's steps were enqueued and created 1 message." in text
    assert "Whatsapp to lead: the rule is disabled, so nothing was sent." in text
    assert "lead-1 (Ada@example.test) was sent by smtp" in text
    assert "by step 1 of its rule." in text
    for asked, mentions in (("ADA@example.test", True), ("lead-1", True), ("bo@x.test", False)):
        path = f"/events/a-2/explain?recipient={quote(asked, '')}"
        of_one = "\n".join((await server.ask("GET", path)).json["sentences"])
        assert ("was sent by smtp" in of_one) is mentions
        assert (f"Nothing was planned for {asked}" in of_one) is not mentions
    [sent] = [item for item in shown["items"] if item["template"] == "email_send"]
    of_item = (await server.ask("GET", f"/outbox/{sent['outboxId']}/explain")).json["sentences"]
    assert "It was caused by the event a-2 (quote_accepted), by step 1 of its rule." in of_item
    item = (await server.ask("GET", f"/outbox/{sent['outboxId']}")).json
    assert (item["eventId"], item["waitsFor"]) == ("a-2", None)
    assert (await server.ask("GET", "/events/none/explain")).status == 404


async def test_an_event_that_failed_is_routed_again_and_no_other(server: Server) -> None:
    step = email(body="{{ quoteNumber }}")
    await server.desk.rule("lead_welcome", Channel.EMAIL, step)
    await server.emit("f-1", "lead_welcome", subject={"lead": LEAD})
    failed = await settled(server, "f-1")
    assert failed["status"] == "failed"
    assert "quoteNumber" in failed["error"]
    told = (await server.ask("GET", "/events/f-1/explain")).json["sentences"]
    assert "outrider event reroute" in told[-1]
    listed = await server.ask("GET", "/events?status=failed&trigger=lead_welcome")
    assert [each["eventId"] for each in listed.json["items"]] == ["f-1"]
    await server.desk.rule("lead_welcome", Channel.EMAIL, email(body="Welcome"))
    again = await server.ask("POST", "/events/f-1/reroute")
    assert (again.status, again.json) == (202, {"success": True, "eventId": "f-1"})
    routed = await settled(server, "f-1")
    assert (routed["status"], [item["status"] for item in routed["items"]]) == (
        "routed", ["succeeded"],
    )  # fmt: skip
    assert (await server.ask("POST", "/events/f-1/reroute")).status == 409
    assert (await server.ask("POST", "/events/none/reroute")).status == 404


async def test_an_id_may_have_any_printable_characters(server: Server) -> None:
    ids = ["o/1", "o/1/explain", "o/1/explain/explain", "o/1/reroute", "50% %2F", "é ü?#&", "a|b"]
    for event_id in ids:
        assert (await server.emit(event_id)).status == 201
    for event_id in ids:
        path = f"/events/{quote(event_id, '')}"
        assert (await server.ask("GET", path)).json["eventId"] == event_id
        assert (await server.ask("GET", f"{path}/explain")).json["eventId"] == event_id
        assert (await server.ask("POST", f"{path}/reroute")).status == 409
    # Slashes may be sent as they are, too, as long as the path means one thing.
    assert (await server.ask("GET", "/events/o/1")).json["eventId"] == "o/1"
    assert (await server.ask("GET", "/events/o/1/explain")).json["sentences"]


async def test_pages_go_from_the_newest_to_the_oldest(server: Server) -> None:
    for number in range(5):
        await server.emit(f"page-{number}", "appointment")
    found: list[str] = []
    path = "/events?trigger=appointment&limit=2"
    page: dict[str, Any] = {"next": ""}
    while page["next"] is not None:
        after = f"&after={page['next']}" if page["next"] else ""
        page = (await server.ask("GET", f"{path}{after}")).json
        found += [each["eventId"] for each in page["items"]]
    assert found == [f"page-{number}" for number in reversed(range(5))]
    assert (await server.ask("GET", "/events?status=lost")).status == 400
    assert (await server.ask("GET", "/events?after=nonsense")).status == 400


async def test_a_program_emits_without_http(server: Server) -> None:
    outrider = server.desk.outrider
    event, is_new = await outrider.emit("quote_rejected", event_id="p-1", variables={"a": 1})
    assert (event.event_id, is_new) == ("p-1", True)
    _, is_new = await outrider.emit("quote_rejected", event_id="p-1", variables={"a": 1})
    assert not is_new
    shown = (await server.ask("GET", "/events/p-1")).json
    assert shown["occurredAt"] == shown["createdAt"]
    assert datetime.fromisoformat(shown["createdAt"]) == event.created_at
