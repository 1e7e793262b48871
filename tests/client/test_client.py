"""Both clients against a real server: typed answers, uploads, retries, streams, errors."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from outrider_client import NO_RETRIES, Client, Refused, Unauthorised, Unreachable
from outrider_client.aio import AsyncClient
from outrider_client.models import (
    CampaignStatus,
    EventEnvelope,
    IntentBody,
    PhaseState,
    RerunBody,
    RerunScope,
)
from tests.support.api_server import ApiServer, campaign, running_server
from tests.support.lost_answers import losing_answers

Answer = TypeVar("Answer")
SECONDS = 60.0


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with running_server(tmp_path) as running:
        yield running


async def in_thread(work: Callable[[], Answer]) -> Answer:
    return await asyncio.wait_for(asyncio.to_thread(work), SECONDS)


async def test_a_campaign_is_created_launched_and_watched_to_its_end(
    server: ApiServer, tmp_path: Path
) -> None:
    people = tmp_path / "people.csv"
    people.write_text("id,phone,firstName\nlead-1,+447700900001,Ada\nlead-2,+447700900002,Bob\n")

    def work() -> None:
        with Client(server.url, server.key) as client:
            created = client.create_campaign(campaign(0))
            with people.open("rb") as file:
                added = client.add_audience(created.campaign_id, file)
            assert added.recipients == 2
            seen = client.watch(created.campaign_id)
            first = next(seen)
            assert isinstance(first, CampaignStatus)
            assert first.phases["launch"].state is PhaseState.NOT_STARTED
            done = client.start_phase(created.campaign_id, "launch")
            assert done.changed
            types = [
                each.type
                for each in itertools.takewhile(lambda each: not _is_end(each), seen)
                if isinstance(each, EventEnvelope)
            ]
            assert types[0] == "phase_started"
            [run] = client.every(client.list_runs, created.campaign_id)
            assert client.get_run(run.run_id).accounting.sent == 2
            assert client.get_certificate(run.run_id).holds
            again = RerunBody(scope=RerunScope.ALL, confirm=True)
            assert client.rerun_phase(created.campaign_id, "launch", again).changed

    await in_thread(work)


def _is_end(each: CampaignStatus | EventEnvelope) -> bool:
    return isinstance(each, EventEnvelope) and each.type == "phase_completed"


async def test_the_asynchronous_client_does_the_same(server: ApiServer, tmp_path: Path) -> None:
    people = tmp_path / "people.ndjson"
    people.write_text('{"id": "lead-1", "phone": "+447700900001"}\n')
    async with AsyncClient(server.url, server.key) as client, asyncio.timeout(SECONDS):
        created = await client.create_campaign(campaign(1))
        with people.open("rb") as file:
            added = await client.add_audience(
                (await client.create_campaign(campaign(0, name="Other"))).campaign_id,
                file,
                "application/x-ndjson",
            )
        assert added.recipients == 1
        await client.start_phase(created.campaign_id, "launch")
        async for each in client.watch(created.campaign_id):
            if isinstance(each, CampaignStatus):
                if each.phases["launch"].state is PhaseState.COMPLETED:
                    break
            elif _is_end(each):
                break
        names = [each.name async for each in client.every(client.list_campaigns, limit=1)]
        assert sorted(names) == ["Offer", "Other"]


async def test_a_call_whose_answer_was_lost_happens_once(server: ApiServer) -> None:
    async with losing_answers(server.url, 2) as proxy:

        def work() -> list[str]:
            with Client(proxy.url, server.key) as client:
                client.create_campaign(campaign(1))
                return [each.name for each in client.every(client.list_campaigns)]

        assert await in_thread(work) == ["Offer"]
        assert proxy.connections >= 3
    async with losing_answers(server.url, 2) as proxy, AsyncClient(proxy.url, server.key) as client:
        await client.create_campaign(campaign(1, name="Second"))
        assert len([each async for each in client.every(client.list_campaigns)]) == 2


async def test_an_intent_is_repeated_by_its_id_and_a_conflict_is_an_error(
    server: ApiServer,
) -> None:
    def work() -> None:
        with Client(server.url, server.key) as client:
            body = IntentBody(intent_id="order-1", submission_target="noop", payload={"to": "a"})
            first = client.submit_intent(body)
            assert client.submit_intent(body).outbox_id == first.outbox_id
            with pytest.raises(Refused) as refused:
                client.submit_intent({"intentId": "order-1", "submissionTarget": "noop",
                                      "payload": {"to": "b"}})  # fmt: skip
            assert (refused.value.status, refused.value.code) == (409, "IDEMPOTENCY_CONFLICT")

    await in_thread(work)


async def test_every_problem_of_a_request_is_named(server: ApiServer) -> None:
    async with AsyncClient(server.url, server.key) as client:
        with pytest.raises(Refused) as refused:
            await client.create_campaign({"name": "", "messages": []})
    assert refused.value.code == "INVALID_REQUEST"
    assert {"name", "messages"} <= {each.path for each in refused.value.problems}
    assert refused.value.request_id


async def test_a_wrong_key_and_a_wrong_url_are_named(server: ApiServer) -> None:
    def work() -> None:
        with Client(server.url, "outrider_wrong") as client, pytest.raises(Unauthorised):
            client.list_campaigns()
        with (
            Client(server.url + "/elsewhere", server.key) as client,
            pytest.raises((Refused, Unreachable)),
        ):
            client.list_campaigns()
        with pytest.raises(ValueError, match="not the URL of a server"):
            Client("localhost", "outrider_key")

    await in_thread(work)


async def test_no_server_is_an_error_after_the_retries() -> None:
    def work() -> None:
        with (
            Client("http://127.0.0.1:9", "outrider_key", retries=NO_RETRIES) as client,
            pytest.raises(Unreachable, match=r"no answer from 127\.0\.0\.1:9"),
        ):
            client.count_trouble()

    await in_thread(work)


async def test_watching_continues_with_a_snapshot_after_the_server_was_killed(
    server: ApiServer,
) -> None:
    async with AsyncClient(server.url, server.key) as client, asyncio.timeout(SECONDS):
        created = await client.create_campaign(campaign(1))
        seen = client.watch(created.campaign_id)
        assert isinstance(await anext(seen), CampaignStatus)
        following = asyncio.ensure_future(anext(seen))
        await asyncio.sleep(0.1)
        await server.restart(gracefully=False)
        assert isinstance(await following, CampaignStatus)
        await client.start_phase(created.campaign_id, "launch")
        event = await anext(seen)
        assert isinstance(event, EventEnvelope)
        assert event.type == "phase_started"


async def test_an_artifact_is_downloaded(server: ApiServer) -> None:
    async with AsyncClient(server.url, server.key) as client, asyncio.timeout(SECONDS):
        created = await client.create_campaign(campaign(1, phases=["launch", "report"]))
        for phase in ("launch", "report"):
            await client.start_phase(created.campaign_id, phase)
            async for each in client.watch(created.campaign_id):
                if isinstance(each, CampaignStatus):
                    if each.phases[phase].state is PhaseState.COMPLETED:
                        break
                elif _is_end(each):
                    break
        [first, *_] = (await client.list_artifacts(created.campaign_id)).items
        assert len(await client.download_artifact(first.id)) > 0
