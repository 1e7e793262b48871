"""The JSON Schemas as consumers meet them: named by every event, served where the name says."""

import asyncio
import json
from importlib import resources
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from tests.support.api_server import ApiServer, campaign, running_server
from tests.support.bus_receiver import SECRET, Receiver, receiving

PUBLIC_URL = "https://news.example.test"
PATIENCE_SECONDS = 30.0


async def fetched(server: ApiServer, path: str) -> tuple[int, str, bytes]:
    """Without a key."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{server.url}{path}") as response,
    ):
        return response.status, response.headers["Content-Type"], await response.read()


async def test_the_schema_that_an_event_names_is_served_there(tmp_path: Path) -> None:
    """R7."""
    heard = asyncio.Event()
    receiver = Receiver()
    accept = receiver.behave

    def told(request: web.Request, event: dict[str, object]) -> object:
        heard.set()
        return accept(request, event)

    receiver.behave = told
    async with receiving(receiver):
        environment = {
            "OUTRIDER_BUS": json.dumps({"audit": {"url": receiver.url, "secret": "env:HOOK"}}),
            "OUTRIDER_ALLOW_PRIVATE_GATEWAYS": "true",
            "OUTRIDER_PUBLIC_URL": PUBLIC_URL,
            "HOOK": SECRET,
        }
        async with running_server(tmp_path, environment=environment) as server:
            created = await server.post("/campaigns", campaign(1))
            await server.post(f"/campaigns/{created['campaignId']}/phases/launch/start")
            async with asyncio.timeout(PATIENCE_SECONDS):
                await heard.wait()
            (named,) = {str(event["dataschema"]) for event in receiver.heard[:1]}
            assert named.startswith(f"{PUBLIC_URL}/")
            status, media_type, content = await fetched(server, urlsplit(named).path)
    assert (status, media_type) == (200, "application/schema+json")
    shipped = resources.files("outrider") / "schemas" / "v1" / "run-event.json"
    assert content == shipped.read_bytes()


@pytest.mark.parametrize(
    "path", ["/schemas/v1/secrets.json", "/schemas/v9/run-event.json", "/schemas/v1/..%2f..%2fx"]
)
async def test_nothing_else_is_served_there(tmp_path: Path, path: str) -> None:
    """R7."""
    async with running_server(tmp_path, workers=0) as server:
        status, _, _ = await fetched(server, path)
    assert status == 404
