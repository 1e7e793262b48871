"""Doubts over HTTP: a provider's export is previewed, and then settles what it answers."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.api.test_console_api import doubtful, found, inside, strangers_headers
from tests.support.api_inside import Inside


async def upload(server: Inside, body: bytes, status: int = 200, **query: str) -> Any:
    given = urlencode({"submissionTarget": "noop", "fileName": "november.csv", **query})
    async with server.session.post(
        f"{server.url}/doubts/reconcile?{given}", data=body, headers=server.headers
    ) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


def export(items: list[dict[str, Any]], *statuses: str) -> bytes:
    rows = [f"{each['reference']};{status}" for each, status in zip(items, statuses, strict=False)]
    return "\r\n".join(["Ihre Referenz;Zustand", *rows, "other;delivered"]).encode("cp1252")


async def test_an_export_is_previewed_and_then_applied(tmp_path: Path) -> None:
    async with inside(tmp_path, run_worker=True) as server:
        run_id = await doubtful(server, tmp_path, 3)
        items = (await found(server, f"/doubts?runId={run_id}"))["items"]
        body = export(items, "delivered", "kaputt")
        # Its reference is recognised by what is in the column, its status is not.
        first = await upload(server, body)
        assert first["mapping"] == {"reference": "Ihre Referenz"}
        assert first["file"]["columns"] == ["Ihre Referenz", "Zustand"]
        mapping = json.dumps({"reference": "Ihre Referenz", "status": "Zustand"})
        seen = await upload(server, body, mapping=mapping)
        assert seen["applied"] is False
        assert (seen["counts"]["sent"], seen["counts"]["inDoubt"]) == (1, 2)
        assert [(each["status"], each["means"]) for each in seen["statuses"]] == [
            ("delivered", "sent"),
            ("kaputt", "unclear"),
        ]
        assert (seen["unknownRows"], seen["unknownSample"][0]["line"]) == (1, 4)
        assert len((await found(server, "/doubts"))["items"]) == 3
        done = await upload(
            server, body, mapping=mapping, statuses='{"kaputt": "failed"}', confirm="true",
            campaignId=items[0]["campaignId"], force="true",
        )  # fmt: skip
        assert (done["applied"], done["resolved"]) == (True, 2)
        assert [each["verdict"] for each in done["sample"]] == ["sent", "failed"]
        left = (await found(server, "/doubts"))["items"]
        assert [each["outboxId"] for each in left] == [items[2]["outboxId"]]
        audit = (await found(server, f"/audit?runId={run_id}"))["items"]
        details = [each["detail"] for each in audit if each["event"] == "doubt.resolved"]
        assert {each["line"] for each in details} == {2, 3}
        assert {each["export"] for each in details} == {"november.csv"}
        assert {each["exportSha256"] for each in details} == {done["file"]["sha256"]}


async def test_a_wrong_export_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    async with inside(tmp_path, run_worker=True) as server:
        run_id = await doubtful(server, tmp_path, 2)
        items = (await found(server, f"/doubts?runId={run_id}"))["items"]
        body = export(items, "delivered", "delivered")
        wrong = json.dumps({"reference": "Zustand"})
        done = await upload(server, body, mapping=wrong, absent="resubmit", confirm="true")
        assert (done["resolved"], done["absenceRefused"]) == (0, "nothing_matched")
        for query in (
            {"mapping": '{"reference": "No such column"}'},
            {"mapping": '{"colour": "Zustand"}'},
            {"mapping": "no JSON"},
            {"statuses": '{"delivered": "perhaps"}'},
            {"absent": "sent"},
        ):
            answer = await upload(server, body, 400, **query)
            assert answer["error"]["fields"], answer
        await upload(server, b"PK\x03\x04...", 400)
        assert len((await found(server, "/doubts"))["items"]) == 2
        stranger = await strangers_headers(server.services.outrider)
        async with server.session.post(
            f"{server.url}/doubts/reconcile?submissionTarget=noop&confirm=true",
            data=body,
            headers=stranger,
        ) as answer:
            assert (await answer.json())["counts"]["doubts"] == 0
