"""The console's server over real sockets: its files, its one stream, and what its pages ask."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from outrider.api.console_files import POLICY, TYPES, load_console
from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.keys import KeyScope
from outrider.limits.api import ApiLimits
from outrider.testing.launches import target
from tests.support.api_inside import Inside, serving
from tests.support.api_server import Stream, campaign
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened

NOOP = target("noop", "noop", "noop:")
MAIL = target("mail", "smtp", "smtp://127.0.0.1:1")


@asynccontextmanager
async def inside(
    tmp_path: Path, *, run_worker: bool = False, **limits: Any
) -> AsyncIterator[Inside]:
    async with (
        opened(f"sqlite:///{tmp_path}/outrider.db", tmp_path, NOOP, MAIL) as outrider,
        serving(outrider, ApiLimits(**limits), run_worker=run_worker) as server,
    ):
        yield server


async def get(server: Inside, path: str, **given: Any) -> tuple[int, Any]:
    headers = given.pop("headers", server.headers)
    async with server.session.get(server.url + path, headers=headers, **given) as answer:
        return answer.status, await answer.json()


async def found(server: Inside, path: str) -> Any:
    status, document = await get(server, path)
    assert status == 200, document
    return document


async def made(server: Inside, **changes: object) -> str:
    return str((await server.post("/campaigns", campaign(**changes)))["campaignId"])  # type: ignore[arg-type]


async def act(server: Inside, campaign_id: str, action: str) -> None:
    await server.post(f"/campaigns/{campaign_id}/phases/launch/{action}")


async def launched(server: Inside, recipients: int = 3) -> tuple[str, str]:
    """A campaign whose launch has ended, and its run."""
    campaign_id = await made(server, recipients=recipients)
    await act(server, campaign_id, "start")
    async with asyncio.timeout(60):
        while True:
            [line] = (await found(server, f"/campaigns?q={campaign_id}"))["items"]
            if line["state"] == "completed":
                return campaign_id, line["runId"]
            await asyncio.sleep(0.02)


async def strangers_headers(outrider: Outrider) -> dict[str, str]:
    scope = await outrider.key_keeper.open_workspace("another", "project", "production")
    _, text = await outrider.key_keeper.create(scope, "b", {KeyScope.ADMIN}, "test")
    return {"Authorization": f"Bearer {text}"}


# Its files.


async def test_the_console_is_served_with_its_policy_and_kept_by_browsers(tmp_path: Path) -> None:
    files = load_console()
    assert "index.html" in files
    async with inside(tmp_path) as server:
        root = server.url.removesuffix("/api/v2")
        for name, file in files.items():
            path = "/" if name == "index.html" else f"/console/{name}"
            async with server.session.get(root + path) as answer:
                assert (answer.status, await answer.read()) == (200, file.content)
                assert answer.headers["Content-Type"] == file.media_type
                assert answer.headers["Content-Security-Policy"] == POLICY
                assert answer.headers["Cache-Control"] == "no-cache"
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Referrer-Policy"] == "no-referrer"
                etag = answer.headers["ETag"]
            for known in (etag, f"W/{etag}", f'"x", {etag}', "*"):
                async with server.session.get(
                    root + path, headers={"If-None-Match": known}
                ) as answer:
                    assert (answer.status, await answer.read()) == (304, b"")
                    assert answer.headers["ETag"] == etag
                    assert answer.headers["Content-Security-Policy"] == POLICY
            async with server.session.get(root + path, headers={"If-None-Match": '"x"'}) as answer:
                assert answer.status == 200
            async with server.session.head(root + path) as answer:
                assert (answer.status, answer.headers["ETag"]) == (200, etag)
                assert int(answer.headers["Content-Length"]) == len(file.content)


def test_the_policy_lets_nothing_in_from_elsewhere() -> None:
    assert POLICY.startswith("default-src 'none';")
    assert "unsafe" not in POLICY
    assert "http" not in POLICY


def test_every_file_of_the_console_is_of_a_type_that_is_served() -> None:
    folder = Path(str(resources.files("outrider") / "console"))
    kept = {
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and file.suffix in TYPES
    }
    assert kept == set(load_console())
    assert not list(folder.rglob("*.py"))


def test_the_package_that_is_installed_has_them_all() -> None:
    builders = pytest.importorskip("hatchling.builders.wheel")
    builder = builders.WheelBuilder(str(Path(__file__).parents[2]))
    packed = {file.distribution_path for file in builder.recurse_included_files()}
    assert {f"outrider/console/{name}" for name in load_console()} <= packed


@pytest.mark.parametrize(
    "path",
    [
        "/console/", "/console", "/console/none.js", "/console/js", "/console/../settings.py",
        "/console/..%2f..%2fsettings.py", "/console/%2e%2e/settings.py", "/console//etc/passwd",
        "/console/js/../index.html", "/console/index.html%00.js", "/console/INDEX.HTML",
        "/console/..%5c..%5csettings.py",
    ],
)  # fmt: skip
async def test_no_path_leads_out_of_the_console(tmp_path: Path, path: str) -> None:
    async with inside(tmp_path) as server:
        # Raw, because every client would tidy up such a path.
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 404 ")
        assert b"content-security-policy: default-src 'none'" in answer.lower()
        assert b"x-content-type-options: nosniff" in answer.lower()


async def test_the_console_is_only_read(tmp_path: Path) -> None:
    async with inside(tmp_path) as server:
        root = server.url.removesuffix("/api/v2")
        async with server.session.post(f"{root}/") as answer:
            assert answer.status == 405
            assert answer.headers["Allow"] == "GET, HEAD"


# Its one stream.


@asynccontextmanager
async def streamed(
    server: Inside, campaigns: str, last_event_id: str | None = None
) -> AsyncIterator[Stream]:
    extra = {"Last-Event-ID": last_event_id} if last_event_id is not None else {}
    async with server.session.get(
        f"{server.url}/stream", params={"campaigns": campaigns}, headers={**server.headers, **extra}
    ) as response:
        assert response.status == 200, await response.text()
        yield Stream(response)


def told(events: Any) -> list[tuple[str, int]]:
    return [(event.data["campaignId"], event.data["sequence"]) for event in events]


async def test_one_stream_reports_many_campaigns_each_in_order(tmp_path: Path) -> None:
    async with inside(tmp_path) as server:
        ids = [await made(server) for _ in range(3)]
        for campaign_id in ids[:2]:
            await act(server, campaign_id, "start")
        asked = f"{ids[0]}@0,{ids[1]}@1,{ids[2]}"
        async with streamed(server, asked) as stream:
            assert told([await stream.next()]) == [(ids[0], 1)]
            assert stream.comments == [f"after {ids[0]}@0,{ids[1]}@1,{ids[2]}@0"]
            for campaign_id in ids:
                await act(server, campaign_id, "start" if campaign_id == ids[2] else "pause")
            for campaign_id in ids[:2]:
                await act(server, campaign_id, "resume")
            events = await stream.take(5)
            for campaign_id, expected in zip(ids, ([2, 3], [2, 3], [1]), strict=True):
                assert [seq for owner, seq in told(events) if owner == campaign_id] == expected
            assert events[-1].id == f"{ids[0]}@3,{ids[1]}@3,{ids[2]}@1"
            assert events[-1].data.keys() == {
                "type", "campaignId", "phase", "sequence", "timestamp", "payload",
            }  # fmt: skip
            streams, hub = server.services.streams, server.services.outrider.hub
            assert (streams.count, hub.watchers) == (1, 3)
        await server.until_no_stream_is_left()


async def test_a_stream_continues_after_the_last_event(tmp_path: Path) -> None:
    async with inside(tmp_path) as server:
        one, other = await made(server), await made(server)
        for campaign_id in (one, other):
            for action in ("start", "pause"):
                await act(server, campaign_id, action)
        async with streamed(server, f"{one}@0,{other}@0", f"{one}@1,{other}@2") as stream:
            assert told([await stream.next()]) == [(one, 2)]
        # What the page shows now counts; what it showed before does not.
        gone = "019f0000-0000-7000-8000-000000000000"
        async with streamed(server, f"{one}@1,{other}@2", f"{one}@0,{gone}@9") as stream:
            assert told(await stream.take(2)) == [(one, 1), (one, 2)]
            assert stream.comments == [f"after {one}@0,{other}@2"]


async def test_a_busy_campaign_does_not_crowd_out_a_quiet_one(tmp_path: Path) -> None:
    async with inside(tmp_path) as server:
        busy, quiet = await made(server), await made(server)
        await act(server, quiet, "start")
        async with raw_sql(f"sqlite:///{tmp_path}/outrider.db") as raw:
            await raw.run(
                "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 5000)"
                f" INSERT INTO campaign_events SELECT '{busy}', n, 'campaign_progress', 'launch',"
                " '{}', '2026-01-01T00:00:00.000000Z' FROM n"
            )
            await raw.run(f"UPDATE campaigns SET last_sequence = 5000 WHERE id = '{busy}'")
        async with streamed(server, f"{busy}@0,{quiet}@0") as stream:
            # Long before the busy one has told all: how soon depends on when each is first read.
            first = told(await stream.take(500))
            assert (quiet, 1) in first
            assert [seq for owner, seq in first if owner == busy] == list(range(1, 500))


@pytest.mark.parametrize(
    "given",
    [
        "", ",", "@", "@1", "{id}@", "{id}@-1", "{id}@x", "{id}@1,", "{id}@1,{id}@1", "{id},{id}@2",
        "{id}@٣", "{id}@" + "9" * 19, "{id}@1 ",
        ",".join(f"019f0000-0000-7000-8000-{number:012d}@0" for number in range(51)),
    ],
)  # fmt: skip
async def test_a_stream_that_is_asked_for_wrongly_is_refused(tmp_path: Path, given: str) -> None:
    async with inside(tmp_path) as server:
        asked = given.format(id=await made(server))
        status, document = await get(server, "/stream", params={"campaigns": asked})
        assert (status, document["error"]["code"]) == (400, "INVALID_REQUEST")
        assert document["error"]["fields"][0]["path"] == "campaigns"
        assert server.services.streams.count == 0


async def test_fifty_campaigns_fit_into_a_stream(tmp_path: Path) -> None:
    async with inside(tmp_path) as server:
        ids = [await made(server) for _ in range(50)]
        # Sequences of any length, as the cursor of a long life would have them.
        long = "9" * 18
        async with raw_sql(f"sqlite:///{tmp_path}/outrider.db") as raw:
            await raw.run(f"UPDATE campaigns SET last_sequence = {long} WHERE id <> '{ids[0]}'")
        asked = ",".join(f"{each}@{long}" for each in ids[1:])
        async with streamed(server, f"{asked},{ids[0]}@0") as stream:
            await act(server, ids[0], "start")
            event = await stream.next()
            assert event.id == f"{asked},{ids[0]}@1"
        async with streamed(server, f"{asked},{ids[0]}@0", event.id):
            pass


async def test_another_workspaces_campaign_makes_the_whole_stream_not_found(tmp_path: Path) -> None:
    async with inside(tmp_path) as server:
        theirs = await made(server)
        headers = await strangers_headers(server.services.outrider)
        for campaigns in (theirs, f"{theirs}@0", "019f0000-0000-7000-8000-000000000000", "x"):
            status, document = await get(
                server, "/stream", params={"campaigns": campaigns}, headers=headers
            )
            assert (status, document["error"]["code"]) == (404, "NOT_FOUND")
        status, _ = await get(server, "/stream", params={"campaigns": theirs}, headers={})
        assert status == 401
        # What was seen once does not open it either.
        status, _ = await get(
            server, "/stream", params={"campaigns": theirs},
            headers={**headers, "Last-Event-ID": f"{theirs}@1"},
        )  # fmt: skip
        assert status == 404


async def test_a_stream_takes_one_connection_however_many_campaigns_it_reports(
    tmp_path: Path,
) -> None:
    async with inside(tmp_path, streams=1) as server:
        ids = [await made(server) for _ in range(3)]
        async with streamed(server, ",".join(ids)):
            status, document = await get(server, "/stream", params={"campaigns": ids[0]})
            assert (status, document["error"]["code"]) == (503, "TOO_MANY_STREAMS")


async def test_a_revoked_key_and_a_stop_end_the_stream(tmp_path: Path) -> None:
    async with inside(tmp_path, stream_recheck_seconds=0.05) as server:
        campaign_id = await made(server)
        key = await server.post("/keys", {"name": "r", "scopes": ["read"]})
        headers = {"Authorization": f"Bearer {key['key']}"}
        async with (
            server.session.get(
                f"{server.url}/stream?campaigns={campaign_id}", headers=headers
            ) as response,
            streamed(server, campaign_id) as kept,
        ):
            async with server.session.delete(
                f"{server.url}/keys/{key['id']}", headers=server.headers
            ):
                pass
            await Stream(response).ended()
            server.services.begin_stop()
            await kept.ended()


# What its pages ask.


async def test_a_list_of_campaigns_shows_the_state_of_each(tmp_path: Path) -> None:
    async with inside(tmp_path, run_worker=True) as server:
        campaign_id, run_id = await launched(server)
        fresh = await made(server, name="Ein Übungsfall", phases=["launch", "report"])
        page = await found(server, "/campaigns")
        assert [line["campaignId"] for line in page["items"]] == [fresh, campaign_id]
        assert page["next"] is None
        first, second = page["items"]
        assert first | {"createdAt": None} == {
            "campaignId": fresh, "name": "Ein Übungsfall", "recipients": 2,
            "launch": "not_started", "state": "not_started", "controlPhase": None,
            "phases": [{"phase": phase, "state": "not_started", "reason": None,
                        "runStatus": None, "scheduledFor": None}
                       for phase in ("launch", "report")],
            "phase": None, "runId": None, "progressPercentage": 0.0, "accounting": None,
            "outcome": None,
            "lastSequence": 0, "createdAt": None,
        }  # fmt: skip
        assert (second["state"], second["phase"], second["runId"]) == (
            "completed", "launch", run_id,
        )  # fmt: skip
        assert second["accounting"] == {
            "intended": 3, "waiting": 0, "inDoubt": 0, "sent": 3, "failed": 0, "skipped": 0,
            "delivery": {
                "delivered": 0, "bounced": 0, "complained": 0, "read": 0, "replied": 0,
                "optedOut": 0, "failed": 0, "unknown": 3,
            },
        }  # fmt: skip
        assert second["progressPercentage"] == 100.0
        assert second["lastSequence"] >= 2
        for query, expected in (
            ("state=completed", [campaign_id]), ("state=not_started", [fresh]),
            ("state=failed", []), ("q=ÜBUNG", [fresh]), ("q=übung&state=completed", []),
            (f"q={campaign_id}", [campaign_id]), ("limit=1", [fresh]),
        ):  # fmt: skip
            lines = (await found(server, f"/campaigns?{query}"))["items"]
            assert [line["campaignId"] for line in lines] == expected, query
        for query in ("state=running", "state=", "q=", "q=" + "x" * 201, "q=%00"):
            assert (await get(server, f"/campaigns?{query}"))[0] == 400, query


async def test_throughput_is_divided_into_as_many_pieces_as_asked(tmp_path: Path) -> None:
    async with inside(tmp_path, run_worker=True) as server:
        _, run_id = await launched(server, 5)
        whole = await found(server, f"/runs/{run_id}/throughput")
        assert whole.keys() == {"runId", "from", "to", "bucketSeconds", "buckets", "unsettledItems"}
        assert len(whole["buckets"]) == 60
        assert sum(bucket["sent"] for bucket in whole["buckets"]) == 5
        assert whole["unsettledItems"] == 0
        assert whole["buckets"][0]["at"] == whole["from"]
        one = await found(server, f"/runs/{run_id}/throughput?buckets=1")
        assert [bucket["sent"] for bucket in one["buckets"]] == [5]
        for buckets in ("0", "501", "x", "-1"):
            status, _ = await get(server, f"/runs/{run_id}/throughput?buckets={buckets}")
            assert status == 400


async def test_a_run_can_be_looked_at_without_reading_its_items(tmp_path: Path) -> None:
    async with inside(tmp_path, run_worker=True) as server:
        await server.post("/suppressions", {"channel": "sms", "addresses": ["+447700000001"]})
        _, run_id = await launched(server, 3)
        whole = await found(server, f"/runs/{run_id}")
        assert [each["reason"] for each in whole["reasons"]] == ["suppressed"]
        assert await found(server, f"/runs/{run_id}?reasons=false") == {**whole, "reasons": []}


async def doubtful(server: Inside, tmp_path: Path, recipients: int) -> str:
    """A run whose items are all in doubt: their calls were opened, and the worker is gone."""
    _, run_id = await launched(server, recipients)
    async with raw_sql(f"sqlite:///{tmp_path}/outrider.db") as raw:
        await raw.run("DROP TRIGGER channel_outbox_terminal_is_final")
        await raw.run(
            "UPDATE channel_outbox SET status = 'queued', intent_status = 'PENDING',"
            " attempt_closed_at = NULL, progress = NULL, doubted_at = updated_at"
            f" WHERE run_id = '{run_id}'"
        )
        await raw.run(
            "UPDATE job_queue SET status = 'queued', outcome = NULL, sent = 0, run_at = NULL"
            f" WHERE run_id = '{run_id}'"
        )
    return run_id


async def test_many_doubts_are_counted_first_and_then_settled_together(tmp_path: Path) -> None:
    async with inside(tmp_path, run_worker=True) as server:
        run_id = await doubtful(server, tmp_path, 4)
        page = await found(server, f"/doubts?runId={run_id}")
        assert len(page["items"]) == 4
        first = page["items"][0]
        assert first["address"].startswith("+4477")
        assert (await found(server, f"/doubts?campaignId={first['campaignId']}")) == page
        assert (await found(server, "/trouble"))["doubts"] == 4
        verdict = {"verdict": "failed", "evidence": "nothing of it arrived"}
        ids = [first["outboxId"], "019f0000-0000-7000-8000-000000000000"]
        for of, matching in (({}, 4), ({"runId": run_id}, 4), ({"ids": ids}, 1),
                             ({"campaignId": first["campaignId"]}, 4)):  # fmt: skip
            answer = await server.post("/doubts/resolve", {**verdict, **of})
            assert answer == {
                "matching": matching, "resolved": 0, "left": matching, "confirmed": False,
                "success": True,
            }  # fmt: skip
        answer = await server.post("/doubts/resolve", {**verdict, "ids": ids, "confirm": True})
        assert (answer["matching"], answer["resolved"], answer["left"]) == (1, 1, 0)
        answer = await server.post("/doubts/resolve", {**verdict, "runId": run_id, "confirm": True})
        assert (answer["matching"], answer["resolved"], answer["left"]) == (3, 3, 0)
        assert (await found(server, "/doubts"))["items"] == []
        entries = (await found(server, f"/audit?runId={run_id}"))["items"]
        settled = [each for each in entries if each["event"] == "doubt.resolved"]
        assert len(settled) == 4
        assert settled[0]["detail"].items() >= verdict.items()


async def test_verdicts_on_many_are_asked_for_rightly_or_not_taken(tmp_path: Path) -> None:
    async with inside(tmp_path) as server:
        campaign_id = await made(server)
        verdict = {"verdict": "sent", "evidence": "seen"}
        for body, expected in (
            ({**verdict, "runId": "x"}, 404),
            ({**verdict, "campaignId": "019f0000-0000-7000-8000-000000000000"}, 404),
            ({**verdict, "ids": []}, 400),
            ({**verdict, "ids": ["x"] * 1_001}, 400),
            ({**verdict, "ids": ["x"], "campaignId": campaign_id}, 400),
            ({**verdict, "confirm": "yes"}, 400),
            ({"verdict": "sent", "evidence": " "}, 400),
            ({"verdict": "lost", "evidence": "x"}, 400),
            ({**verdict, "ids": ["x"], "confirm": True}, 200),
        ):
            async with server.session.post(
                f"{server.url}/doubts/resolve", json=body, headers=server.headers
            ) as answer:
                assert answer.status == expected, body


async def test_targets_are_listed_with_their_execution_and_state(tmp_path: Path) -> None:
    async with inside(tmp_path) as server:
        await act(server, await made(server), "start")
        mail, noop = (await found(server, "/targets"))["targets"]
        assert (mail["submissionTarget"], mail["channel"], mail["gatewayType"]) == (
            "mail", "email", "smtp",
        )  # fmt: skip
        assert mail["gatewayUrl"] == "smtp://127.0.0.1:1"
        assert (noop["channel"], noop["openJobs"], noop["inDoubt"]) == ("sms", 1, 0)
        assert noop["state"] is None
        assert noop["execution"] == {
            "ratePerSecond": None, "burst": 1, "breakerFailures": 20, "breakerSeconds": 15.0,
            "retryFirstSeconds": 5.0, "retryFactor": 1.0, "retryCapSeconds": 3600.0,
            "timeoutSeconds": None, "concurrency": None, "fallback": None,
                "fallbackWhenDown": False, "warmUp": None,
        }  # fmt: skip
        headers = await strangers_headers(server.services.outrider)
        _, theirs = await get(server, "/targets", headers=headers)
        assert [each["gatewayUrl"] for each in theirs["targets"]] == [None, None]
        assert [each["openJobs"] for each in theirs["targets"]] == [0, 0]


async def test_bypasses_are_listed_with_who_and_why(tmp_path: Path) -> None:
    async with inside(tmp_path) as server:
        campaign_id = await made(server)
        async with raw_sql(f"sqlite:///{tmp_path}/outrider.db") as raw:
            await raw.run("UPDATE campaign_phases SET state = 'completed'")
        [bypass] = (await found(server, "/bypasses"))["items"]
        assert bypass | {"id": "", "createdAt": ""} == {
            "id": "", "createdAt": "", "campaignId": campaign_id, "phase": "launch",
            "fromStatus": "not_started", "toStatus": "completed", "caller": "sql",
            "reason": "unknown",
        }  # fmt: skip
        assert await found(server, "/trouble") == {
            "doubts": 0, "alerts": 0, "deadLetters": 0, "bypasses": 1, "failedEvents": 0,
            "most": 10_000,
        }  # fmt: skip


async def rule(server: Inside, *steps: dict[str, object], enabled: bool = True) -> None:
    body = {"trigger": "quote_sent", "channel": "email", "audience": "lead", "enabled": enabled}
    async with server.session.put(
        f"{server.url}/workflows/rules", json=body, headers=server.headers
    ) as answer:
        rule_id = (await answer.json())["id"]
    for place, step in enumerate(steps):
        await server.post(
            "/workflows/steps",
            {"ruleId": rule_id, "stepOrder": place,
             "recipientConfig": {"includeLeadContact": True}, **step},
        )  # fmt: skip


EVENT = {
    "trigger": "quote_sent",
    "subject": {"lead": {"id": "lead-1", "email": "Ada@example.test", "firstName": "Ada"}},
    "variables": {"number": 4711},
}


async def rehearsed(server: Inside, event: object = EVENT) -> Any:
    return await server.post("/workflows/dry-run", event)


async def test_a_dry_run_says_what_an_event_would_do_and_writes_nothing(tmp_path: Path) -> None:
    async with inside(tmp_path) as server:
        await rule(
            server,
            {"subject": "Quote {{ number }}", "body": "<p>Hi {{ lead.firstName }}</p>"},
            {"subject": "Later", "body": "Still there?", "delaySeconds": 3600},
            {"subject": "All", "body": "{{ entries }}", "digestMinutes": 1},
        )
        answer = await rehearsed(server)
        assert (answer["status"], answer["problem"], answer["notShown"]) == ("routed", None, 0)
        [route] = answer["routes"]
        assert (route["decision"], route["items"], route["collected"]) == ("steps", 2, 1)
        first, second = answer["messages"]
        assert (first["subject"], first["body"], first["html"]) == (
            "Quote 4711", "<p>Hi Ada</p>", True,
        )  # fmt: skip
        assert (first["recipientId"], first["address"]) == ("lead-1", "Ada@example.test")
        assert (first["submissionTarget"], first["waitsFor"]) == ("mail", None)
        assert (second["waitsFor"], second["skippedBecause"]) == ("delay", None)
        [digest] = answer["digests"]
        assert digest["address"] == "ada@example.test"
        assert answer["sentences"] == [
            "Email to lead: the rule's steps would create 2 messages and 1 digest entry."
        ]
        async with raw_sql(f"sqlite:///{tmp_path}/outrider.db") as raw:
            for table in ("domain_events", "channel_outbox", "digests", "signing_keys",
                          "idempotency_records"):  # fmt: skip
                assert await raw.run(f"SELECT count(*) FROM {table}") == [(0,)], table


async def test_a_dry_run_shows_what_would_not_be_sent_and_why(tmp_path: Path) -> None:
    async with inside(tmp_path) as server:
        await rule(server, {"subject": "Hi", "body": "Hi"})
        await server.post("/suppressions", {"channel": "email", "addresses": ["ada@example.test"]})
        [message] = (await rehearsed(server))["messages"]
        assert (message["skippedBecause"], message["body"]) == ("suppressed", "Hi")
        nobody = {**EVENT, "subject": {"lead": {"id": "lead-1"}}}
        answer = await rehearsed(server, nobody)
        assert answer["messages"] == []
        assert answer["routes"][0]["withoutAddress"] == ["lead-1"]
        assert "no email address of lead-1" in answer["sentences"][1]
        await rule(server, {"subject": "Hi", "body": "Hi {{ nothing.like.this }}"})
        answer = await rehearsed(server)
        [route] = answer["routes"]
        assert (route["decision"], route["sender"]) == ("legacy_fallback", "proposal_email")
        assert "nothing" in route["why"]
        assert "the rule could not be enqueued" in answer["sentences"][0]
        await rule(server, enabled=False)
        answer = await rehearsed(server)
        assert answer["sentences"] == [
            "Email to lead: the rule is disabled, so nothing would be sent."
        ]
        answer = await rehearsed(server, {"trigger": "nobody_knows_it"})
        assert answer["status"] == "failed"
        assert "is not a known trigger" in str(answer["problem"])


@pytest.mark.parametrize(
    "body", [{}, {"trigger": "Quote Sent"}, {**EVENT, "more": 1}, {**EVENT, "subject": []}]
)
async def test_a_dry_run_takes_what_an_event_may_be(tmp_path: Path, body: object) -> None:
    async with (
        inside(tmp_path) as server,
        server.session.post(
            f"{server.url}/workflows/dry-run", json=body, headers=server.headers
        ) as answer,
    ):
        assert answer.status == 400


async def test_the_workspace_of_a_session_is_named(tmp_path: Path) -> None:
    async with inside(tmp_path) as server:
        outrider = server.services.outrider
        scope = await outrider.key_keeper.open_workspace("acme", "shop", "live")
        _, text = await outrider.key_keeper.create(scope, "b", {KeyScope.READ}, "test")
        assert scope != DEFAULT_SCOPE
        root = server.url.removesuffix("/api/v2")
        async with server.session.post(f"{root}/session", json={"key": text}) as answer:
            assert (await answer.json())["workspace"] == {
                "tenant": "acme", "project": "shop", "environment": "live",
            }  # fmt: skip
