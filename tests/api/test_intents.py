"""Intents over HTTP: by the thousand, in lists, with a callback, and what is refused."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from outrider.cli.app import app
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.keys import KeyScope
from outrider.gateways.sandbox import Sandbox
from outrider.limits.api import ApiLimits
from outrider.testing.launches import target
from tests.support.api_inside import Inside, serving
from tests.support.bus_receiver import Receiver, receiving
from tests.support.controls import until
from tests.support.eventually import eventually
from tests.support.whole_runs import opened

TEXT = {"to": "+447700900123", "message": "Hi"}


@asynccontextmanager
async def served(
    database: str, folder: Path, *, run_worker: bool = False, **others: Any
) -> AsyncIterator[Inside]:
    async with Sandbox() as sandbox:
        entries = [target(name, "sms", sandbox.http_url) for name in ("sms", "other")]
        async with (
            opened(database, folder, *entries, **others) as outrider,
            serving(outrider, ApiLimits(), run_worker=run_worker) as inside,
        ):
            yield inside


async def ask(
    inside: Inside, method: str, path: str, body: object = None, key: str | None = None
) -> tuple[int, dict[str, Any]]:
    headers = {
        "Authorization": f"Bearer {key or inside.key}",
        "Content-Type": "application/json",
    }
    data = body if isinstance(body, bytes) or body is None else json.dumps(body)
    async with inside.session.request(
        method, inside.url + path, data=data, headers=headers
    ) as response:
        return response.status, await response.json()


def intent(name: object, submit_to: str = "sms", **others: Any) -> dict[str, Any]:
    return {"intentId": name, "submissionTarget": submit_to, "payload": TEXT, **others}


async def test_a_batch_answers_each_as_the_single_door_would(database: str, tmp_path: Path) -> None:
    async with served(database, tmp_path) as inside:
        await inside.post("/intents", intent("known"))
        batch = [
            intent("a"),
            intent("known"),
            intent("known", "other"),
            intent(""),
            intent("b", "nowhere"),
            {"intentId": "c"},
            "no object",
            intent("d", callbackUrl="http://127.0.0.1/"),
            intent("e", surprise=1),
            intent("f", topic="orders", transactional=True),
        ]
        status, answer = await ask(inside, "POST", "/intents/batch", {"intents": batch})
        assert status == 200
        items = answer["items"]
        assert [each["status"] for each in items] == [
            201, 200, 409, 400, 400, 400, 400, 400, 400, 201,
        ]  # fmt: skip
        assert [each["intentId"] for each in items] == [
            "a", "known", "known", "", "b", "c", None, "d", "e", "f",
        ]  # fmt: skip
        assert items[2]["error"]["code"] == "IDEMPOTENCY_CONFLICT"
        assert [each["path"] for each in items[5]["error"]["fields"]] == [
            "submissionTarget", "payload",
        ]  # fmt: skip
        assert items[7]["error"]["fields"][0]["path"] == "callbackUrl"
        _, found = await ask(inside, "GET", f"/intents/{items[0]['intentId']}")
        assert found["outboxId"] == items[0]["outboxId"]
        _, stated = await ask(inside, "GET", "/intents/f")
        assert (stated["topic"], stated["transactional"]) == ("orders", True)
        again, repeated = await ask(inside, "POST", "/intents/batch", {"intents": batch})
        assert again == 200
        assert [each["status"] for each in repeated["items"]][:2] == [200, 200]


async def test_a_payload_in_a_batch_is_forwarded_as_it_was_written(
    database: str, tmp_path: Path
) -> None:
    spelt = '{"to": "+447700900123",  "message": "Hi", "n": 1.0}'
    body = f'{{"intents": [{{"intentId":"a","submissionTarget":"sms","payload":{spelt}}}]}}'
    async with served(database, tmp_path) as inside:
        await ask(inside, "POST", "/intents/batch", body.encode())
        headers = inside.headers
        async with inside.session.get(f"{inside.url}/intents/a", headers=headers) as response:
            assert spelt in await response.text()


NO_BATCHES = {
    "empty": b'{"intents": []}',
    "no list": b'{"intents": {}}',
    "unknown field": b'{"intents": [{}], "more": 1}',
    "no JSON": b'{"intents": [',
    "too many": json.dumps({"intents": [{}] * 1_001}).encode(),
}


async def test_an_invalid_batch_is_refused_as_a_whole(tmp_path: Path) -> None:
    async with served(f"sqlite:///{tmp_path}/a.db", tmp_path) as inside:
        for name, body in NO_BATCHES.items():
            found, answer = await ask(inside, "POST", "/intents/batch", body)
            assert (found, answer["error"]["code"]) == (400, "INVALID_REQUEST"), name
        # It is refused by its length, before anything of it is read.
        async with inside.session.post(
            f"{inside.url}/intents/batch",
            data=b" " * (ApiLimits.intent_batch_max_bytes + 1),
            headers={**inside.headers, "Content-Type": "application/json"},
            expect100=True,
        ) as response:
            assert response.status == 413
        _, page = await ask(inside, "GET", "/intents")
        assert page == {"items": [], "next": None}


async def test_intents_are_listed_by_status_and_target(database: str, tmp_path: Path) -> None:
    async with served(database, tmp_path, run_worker=True) as inside:
        batch = [intent(f"{kind}-{n}", kind) for n in range(3) for kind in ("sms", "other")]
        await ask(inside, "POST", "/intents/batch", {"intents": batch})
        page: dict[str, Any] = {}

        async def accepted() -> int:
            page.update((await ask(inside, "GET", "/intents?status=ACCEPTED"))[1])
            return len(page["items"])

        async with asyncio.timeout(60):
            while True:
                if await accepted() == 6:
                    break
                await asyncio.sleep(0.02)
        path = "/intents?status=ACCEPTED&submissionTarget=other&limit=2"
        _, first = await ask(inside, "GET", path)
        assert [each["intentId"] for each in first["items"]] == ["other-2", "other-1"]
        assert first["items"][0]["finalOutcome"] == "accepted"
        _, second = await ask(inside, "GET", f"{path}&after={first['next']}")
        assert [each["intentId"] for each in second["items"]] == ["other-0"]
        assert (await ask(inside, "GET", "/intents?status=PENDING"))[1]["items"] == []
        assert (await ask(inside, "GET", "/intents?status=perhaps"))[0] == 400
        assert (await ask(inside, "GET", "/intents?after=nonsense"))[0] == 400


async def test_a_callback_is_called_over_http_and_only_administrators_see_its_secret(
    database: str, tmp_path: Path
) -> None:
    others = {"allow_private_callbacks": True, "run_worker": True}
    async with served(database, tmp_path, **others) as inside:
        keeper = inside.services.outrider.key_keeper
        _, operator = await keeper.create(DEFAULT_SCOPE, "op", [KeyScope.OPERATE], "test")
        assert (await ask(inside, "GET", "/callbacks/secret", key=operator))[0] == 403
        _, found = await ask(inside, "GET", "/callbacks/secret")
        assert found["secret"].startswith("whsec_")
        async with receiving(Receiver(secret=found["secret"])) as receiver:
            body = intent("order-1", callbackUrl=receiver.url)
            status, answer = await ask(inside, "POST", "/intents", body, operator)
            assert (status, answer["callbackUrl"]) == (201, receiver.url)
            await until(lambda: len(receiver.heard) == 1)
        assert receiver.refused == 0
        assert receiver.heard[0]["data"]["intentId"] == "order-1"
        _, shown = await ask(inside, "GET", "/intents/order-1")
        assert shown["callbackUrl"] == receiver.url


NO_ADDRESSES = (
    "http://shop.example.test/", "ftp://shop.example.test/", "https://", "shop.example.test",
    "https://user:word@shop.example.test/", "https://shop.example.test/#part",
    "https://shop.example.test/with blank", "https://shop.example.test/é",
    "https://shop.example.test:99999/", "https://[::1/",
    "https://shop.example.test/" + "x" * 2_048,
)  # fmt: skip


async def test_an_address_that_cannot_be_called_is_refused_by_its_field(tmp_path: Path) -> None:
    async with served(f"sqlite:///{tmp_path}/a.db", tmp_path) as inside:
        for url in NO_ADDRESSES:
            status, answer = await ask(inside, "POST", "/intents", intent("a", callbackUrl=url))
            assert status == 400, url
            assert [each["path"] for each in answer["error"]["fields"]] == ["callbackUrl"]


async def test_the_command_line_submits_files_and_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "intents.ndjson"
    lines = [json.dumps(intent(f"o-{number}")) for number in range(1_200)]
    file.write_text("\n".join([*lines[:700], "", "not JSON", *lines[700:], '{"intentId": "x"}']))
    monkeypatch.chdir(tmp_path)

    async def run(*arguments: str) -> tuple[int, Any]:
        done = await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--json"])
        return done.exit_code, json.loads(done.stdout) if done.stdout else None

    async with served(f"sqlite:///{tmp_path}/outrider.db", tmp_path) as inside:
        code, first = await run("intent", "submit", "--batch", str(file))
        assert (code, first["new"], first["known"]) == (1, 1_200, 0)
        assert [each["line"] for each in first["refused"]] == [702, 1_203]
        monkeypatch.setenv("OUTRIDER_KEY", inside.key)
        server = inside.url.removesuffix("/api/v2")
        code, again = await run("--server", server, "intent", "submit", "--batch", str(file))
        assert (code, again["new"], again["known"]) == (1, 0, 1_200)
        assert [each["line"] for each in again["refused"]] == [702, 1_203]
        for where in ((), ("--server", server)):
            _, page = await run(*where, "intent", "list", "--status", "PENDING", "--limit", "2")
            assert [each["intentId"] for each in page["items"]] == ["o-1199", "o-1198"]
        secrets = [
            (await run(*where, "key", "callback-secret"))[1]["secret"]
            for where in ((), ("--server", server))
        ]
        assert len(set(secrets)) == 1


async def test_hours_follow_the_time_zone_that_an_intent_names(
    database: str, tmp_path: Path
) -> None:
    """One in the payload is its gateway's business. A phone prefix counts where none is named."""
    now = datetime.now(UTC)
    begins, ends = (now + timedelta(hours=each) for each in (-2, 2))
    window = {"sendingWindow": {"from": f"{begins:%H:%M}", "to": f"{ends:%H:%M}"}}
    elsewhere = {"to": "+61255501234", "message": "Hi", "timeZone": "UTC"}
    async with served(database, tmp_path, run_worker=True) as inside:
        status, _ = await ask(inside, "PUT", "/workflows/policy", window)
        assert status == 200
        for name, given in {
            "here": intent("here", timeZone="UTC"),
            "there": intent("there", timeZone="Asia/Dhaka"),
            "prefix": {**intent("prefix"), "payload": elsewhere},
            "named": {**intent("named", timeZone="UTC"), "payload": elsewhere},
        }.items():
            status, answer = await ask(inside, "POST", "/intents", given)
            assert (status, answer["timeZone"]) == (201, given.get("timeZone")), name

        async def status_of(name: str) -> tuple[str, str | None]:
            _, answer = await ask(inside, "GET", f"/intents/{name}")
            return answer["status"], answer["waitsFor"]

        async def settled() -> bool:
            found = [await status_of(each) for each in ("here", "named", "there", "prefix")]
            return found == [("ACCEPTED", None)] * 2 + [("PENDING", "sending_window")] * 2

        await eventually(settled)
        status, answer = await ask(
            inside, "POST", "/intents", intent("x", timeZone="Europe/Atlantis")
        )
        assert (status, answer["error"]["fields"][0]["path"]) == (400, "timeZone")
