"""What Temporal can read: ids and numbers, no personal data, and with the codec not even those."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from google.protobuf.message import Message as Protobuf
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.recipients import Recipient, recipient
from outrider.domain.states import Channel
from outrider.engines.temporal.codec import ENCODING
from outrider.engines.temporal.engine import workflow_id
from outrider.engines.temporal.messages import JOB_FAILED
from outrider.kernel.transactions import paging, run_jobs
from outrider.ports.engine import Work, WorkKind
from outrider.ports.stages import Stage
from outrider.testing.launches import launch, message, observe, people, target, until_terminal
from tests.support.controls import PATIENCE_SECONDS
from tests.support.temporal_server import TemporalServer
from tests.support.whole_runs import opened, working

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

NAME, EMAIL, PHONE = "Ada Wilhelmina", "ada.lovelace@example.test", "+447700900123"
PERSON = ("customer-lovelace", NAME, EMAIL, PHONE, "Marylebone")
KEY, OTHER_KEY = "0f" * 32, "f0" * 32
NOOP = target("noop", "noop", "noop:")
OFFER = message(Channel.SMS, "noop", body="Dear {{ firstName }}")


@asynccontextmanager
async def on_temporal(
    server: TemporalServer, database: str, folder: Path, **settings: Any
) -> AsyncIterator[Outrider]:
    settings.setdefault("temporal_task_queue", f"payloads-{uuid4()}")
    async with opened(
        database, folder, NOOP, engine="temporal", temporal_address=server.address, **settings
    ) as outrider:
        yield outrider


async def workflow_of(server: TemporalServer, run_id: RunId) -> WorkflowHandle[Any, Any]:
    client = await Client.connect(server.address)
    work = Work(WorkKind.RUN, DEFAULT_SCOPE.tenant_id, run_id)
    return client.get_workflow_handle(workflow_id(work))


class Indiscreet:
    """Fails once before a job is held and once with it in hand, and says of whom."""

    def __init__(self) -> None:
        self._to_fail = [Stage.CLAIM, Stage.RENDER]

    def before(self, stage: Stage) -> None:
        if stage in self._to_fail:
            self._to_fail.remove(stage)
            raise ValueError(f"{NAME} <{EMAIL}> cannot be called at {PHONE}")

    def after(self, stage: Stage) -> None:
        pass

    @property
    def has_failed(self) -> bool:
        return not self._to_fail


def person() -> Recipient:
    attributes = msgspec.json.encode({"firstName": NAME, "town": "Marylebone"}).decode()
    return recipient(
        "customer-lovelace", email=EMAIL, phone=PHONE, push_token=None, attributes=attributes
    )


async def test_nothing_of_a_person_reaches_temporal_even_when_jobs_fail_over_them(
    temporal_server: TemporalServer, database: str, tmp_path: Path
) -> None:
    indiscreet = Indiscreet()
    async with (
        on_temporal(temporal_server, database, tmp_path) as outrider,
        working(outrider, observer=indiscreet),
    ):
        run_id = await launch(outrider, [OFFER], [person()])
        accounting = await until_terminal(outrider, run_id)
        handle = await workflow_of(temporal_server, run_id)
        await handle.result()
    assert indiscreet.has_failed
    assert accounting.sent == 1
    described = (await handle.describe()).raw_description
    history = [event async for event in handle.fetch_history_events()]
    told = b"".join(each.SerializeToString() for each in (described, *history))
    assert all(known in told for known in (run_id.encode(), b"ValueError", JOB_FAILED.encode()))
    for text in PERSON:
        assert text.encode() not in told


async def test_with_the_codec_no_payload_can_be_read(
    temporal_server: TemporalServer,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CODEC_KEY", KEY)
    codec = {"temporal_codec_key": "env:CODEC_KEY"}
    async with on_temporal(temporal_server, database, tmp_path, **codec) as outrider:
        async with working(outrider, observer=Indiscreet()):
            run_id = await launch(outrider, [OFFER], [person(), *people(5)], batch_size=2)
            assert (await until_terminal(outrider, run_id)).sent == 6
            handle = await workflow_of(temporal_server, run_id)
            with pytest.raises(KeyError, match="Unknown payload encoding"):
                await handle.result()
        jobs = await outrider.store.read(run_jobs.jobs_page(run_id, paging.FIRST, 10))
    history = [event async for event in handle.fetch_history_events()]
    found = [payload for event in history for payload in payloads(event)]
    sealed = [payload for payload in found if payload.metadata["encoding"] == ENCODING]
    assert len(jobs) == 3
    assert len(sealed) > 2 * len(jobs), "an order and a fate of each job at the least"
    # What is left open the library writes by itself: which activity it was, and when.
    in_the_open = b"".join(payload.data for payload in found if payload not in sealed)
    every_id = [run_id, *(job.id for job in jobs)]
    assert not [each for each in every_id if each.encode() in in_the_open]
    whole = b"".join(event.SerializeToString() for event in history)
    assert JOB_FAILED.encode() in whole
    assert b"activities.py" not in whole, "not even where it failed"


async def test_a_worker_with_another_key_can_do_nothing(
    temporal_server: TemporalServer,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sealed = {
        "temporal_task_queue": f"payloads-{uuid4()}",
        "temporal_codec_key": "env:CODEC_KEY",
    }
    monkeypatch.setenv("CODEC_KEY", KEY)
    async with on_temporal(temporal_server, database, tmp_path, **sealed) as outrider:
        run_id = await launch(outrider, [OFFER], people(3))
        handle = await workflow_of(temporal_server, run_id)
        monkeypatch.setenv("CODEC_KEY", OTHER_KEY)
        async with (
            on_temporal(temporal_server, database, tmp_path, **sealed) as stranger,
            working(stranger),
        ):
            await until_told(handle, EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED)
        _, accounting = await observe(outrider, run_id)
        assert accounting.waiting == 3


async def test_payloads_written_without_a_codec_stay_readable(
    temporal_server: TemporalServer,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = {"temporal_task_queue": f"payloads-{uuid4()}"}
    async with on_temporal(temporal_server, database, tmp_path, **queue) as before:
        run_id = await launch(before, [OFFER], people(3))
        monkeypatch.setenv("CODEC_KEY", KEY)
        codec = {**queue, "temporal_codec_key": "env:CODEC_KEY"}
        async with (
            on_temporal(temporal_server, database, tmp_path, **codec) as after,
            working(after),
        ):
            assert (await until_terminal(after, run_id)).sent == 3
    handle = await workflow_of(temporal_server, run_id)
    history = [event async for event in handle.fetch_history_events()]
    written = {payload.metadata["encoding"] for each in history for payload in payloads(each)}
    assert written >= {b"json/plain", ENCODING}


async def until_told(handle: WorkflowHandle[Any, Any], kind: "EventType.ValueType") -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in handle.fetch_history_events(wait_new_event=True):
            if event.event_type == kind:
                return
    raise AssertionError("the workflow ended without it")


def payloads(message: Protobuf) -> Iterator[Payload]:
    """All of them, however deep."""
    if isinstance(message, Payload):
        yield message
        return
    for kind, value in message.ListFields():
        if kind.message_type is None:
            continue
        if kind.message_type.GetOptions().map_entry:
            inner = [each for each in value.values() if isinstance(each, Protobuf)]
        else:
            inner = list(value) if kind.is_repeated else [value]
        for each in inner:
            yield from payloads(each)
