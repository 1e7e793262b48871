"""The way back: receipts a second taken and matched on Postgres, beside the raw insert limit.

One process takes callbacks and another matches them, as a server and a worker would. The limit is
the same rows copied into the same table with the same commits, and nothing else. Then a campaign is
sent with no receipts waiting and with a million of them behind. `RECEIPTS=…`, `BEHIND=…` and
`SENT=…` ask for other amounts; `python bench/receipts.py taken`, `http` or `behind` is one part
alone. `http` posts signed callbacks to a real server, with one receipt each and with many; whoever
posts them is on the same machine.
"""

import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import asyncpg
import msgspec
import structlog

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.states import Channel
from outrider.gateways.json_receipts import ReceiptDocument, ReceiptsDocument
from outrider.gateways.sandbox_receipts import Post, standard_post
from outrider.kernel.transactions import deliveries
from outrider.settings import Settings
from outrider.system import SystemIds
from outrider.testing.launches import launch, message, people, registry, target, until_terminal
from outrider.testing.postgres import PrivatePostgres, create_database

RECEIPTS = int(os.environ.get("RECEIPTS", "100000"))
BEHIND = int(os.environ.get("BEHIND", "1000000"))
SENT = int(os.environ.get("SENT", "30000"))
TARGET = "sms.all"
SECRET = "whsec_" + "T3V0cmlkZXIgcmVjZWlwdCB0ZXN0IHNlY3JldCAwMDE="
CALLBACKS_AT_ONCE = 64
CALLBACK_RECEIPTS = 20
COPIED_AT_ONCE = 1_000
LOOK_SECONDS = 0.02
ROUNDS = 5

FILL_LEDGER = """
INSERT INTO channel_outbox (id, tenant_id, workspace_id, origin, run_id, job_id, channel, provider,
  submission_target, contract_id, recipient_id, recipient_address, idempotency_key, status,
  intent_status, attempts, attempt_fence, attempt_opened_at, attempt_closed_at, progress,
  created_at, updated_at)
SELECT id, $1, $2, 'campaign', $3, $4, 'sms', 'noop', $5, 1, 'lead-' || n,
       '+4477' || lpad(n::text, 8, '0'), sha256(n::text::bytea), 'sent', 'ACCEPTED', 1, 1, now(),
       now(), 'ANSWERED', now(), now()
  FROM unnest($6::uuid[]) WITH ORDINALITY item (id, place), LATERAL (SELECT place - 1 AS n) numbered
"""
WAITING = """
INSERT INTO receipts (id, tenant_id, workspace_id, submission_target, receipt_id, event, reference,
  permanent, reason, occurred_at, received_at)
SELECT gen_random_uuid(), $1, $2, $3, 'behind-' || n, 'delivered',
       encode(sha256((n % $4)::text::bytea), 'hex'), false, '', now(), now()
  FROM generate_series(0, $5::int - 1) n
"""


def reference(number: int) -> str:
    import hashlib

    return hashlib.sha256(str(number).encode()).hexdigest()


def told(first: int, count: int) -> list[Receipt]:
    now = datetime.now(UTC)
    return [
        Receipt(
            f"r-{number}", ReceiptEvent.DELIVERED, reference(number), f"SM{number:032d}",
            reason="delivered to the handset", occurred_at=now,
        )
        for number in range(first, first + count)
    ]  # fmt: skip


def settings_of(url: str, folder: Path) -> Settings:
    path = folder / "registry.json"
    path.write_bytes(registry(target(TARGET, "noop", "noop:")))
    return Settings(
        database_url=url, registry=path, artifacts=folder / "artifacts", spool=folder / "spool"
    )


async def filled(url: str, items: int) -> RunId:
    """A ledger with so many items that were sent."""
    run_id = RunId(SystemIds().new())
    connection = await asyncpg.connect(url)
    place = (DEFAULT_SCOPE.tenant_id, DEFAULT_SCOPE.workspace_id)
    await connection.execute(
        FILL_LEDGER, *place, run_id, SystemIds().new(), TARGET, SystemIds().batch(items)
    )
    await connection.execute("VACUUM ANALYZE channel_outbox")
    await connection.close()
    return run_id


async def copied(url: str, receipts: Sequence[Receipt]) -> float:
    """Seconds for the same rows, copied by one connection into the same table."""
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE receipts_limit (LIKE receipts INCLUDING ALL)")
    ids = SystemIds()
    now = datetime.now(UTC)
    columns = (
        "id", "tenant_id", "workspace_id", "submission_target", "receipt_id", "event", "reference",
        "provider_message_id", "permanent", "reason", "occurred_at", "received_at",
    )  # fmt: skip
    began = time.perf_counter()
    for first in range(0, len(receipts), COPIED_AT_ONCE):
        rows = [
            (
                ids.new(), *DEFAULT_SCOPE, TARGET, each.receipt_id, each.event.value,
                each.reference, each.provider_message_id, False, each.reason, each.occurred_at, now,
            )
            for each in receipts[first : first + COPIED_AT_ONCE]
        ]  # fmt: skip
        await connection.copy_records_to_table("receipts_limit", records=rows, columns=columns)
    seconds = time.perf_counter() - began
    await connection.execute("DROP TABLE receipts_limit")
    await connection.close()
    return seconds


def matching(url: str, folder: str, stop: Any) -> None:
    """A worker's matcher, in a process of its own."""

    async def run() -> None:
        async with open_outrider(settings_of(url, Path(folder))) as outrider:
            role = asyncio.create_task(outrider.receipt_matcher.run())
            await asyncio.to_thread(stop.wait)
            role.cancel()

    quiet()
    asyncio.run(run())


async def taken(outrider: Outrider, callbacks: Iterator[list[Receipt]]) -> None:
    async def provider() -> None:
        for callback in callbacks:
            await outrider.receipt_intake.take_in(DEFAULT_SCOPE, TARGET, callback)

    await asyncio.gather(*(provider() for _ in range(CALLBACKS_AT_ONCE)))


async def until_matched(outrider: Outrider, run_id: RunId, items: int) -> None:
    while True:
        counts = await outrider.store.read(deliveries.of_run(run_id))
        if sum(counts.values()) >= items:
            return
        await asyncio.sleep(LOOK_SECONDS)


async def measure_taken(url: str, folder: Path) -> dict[str, float]:
    async with open_outrider(settings_of(url, folder)) as outrider:
        await outrider.store.migrate()
        run_id = await filled(url, RECEIPTS)
        limit = RECEIPTS / await copied(url, told(0, RECEIPTS))
        outrider.receipt_matcher.wake()
        stop = multiprocessing.get_context("spawn").Event()
        worker = multiprocessing.get_context("spawn").Process(
            target=matching, args=(url, str(folder), stop)
        )
        worker.start()
        await asyncio.sleep(3)
        callbacks = [
            told(first, CALLBACK_RECEIPTS) for first in range(0, RECEIPTS, CALLBACK_RECEIPTS)
        ]
        began = time.perf_counter()
        await taken(outrider, iter(callbacks))
        all_taken = time.perf_counter() - began
        await until_matched(outrider, run_id, RECEIPTS)
        all_matched = time.perf_counter() - began
        stop.set()
        worker.join()
    return {
        "limit": limit,
        "takenPerSecond": RECEIPTS / all_taken,
        "takenAndMatchedPerSecond": RECEIPTS / all_matched,
        "ofLimit": RECEIPTS / all_matched / limit,
    }


@asynccontextmanager
async def serving(url: str, folder: Path) -> AsyncIterator[str]:
    """`outrider serve` without a worker, whose target takes receipts."""
    own = folder / "server"
    own.mkdir()
    (own / "registry.json").write_bytes(registry(target(TARGET, "sms", "http://127.0.0.1:9")))
    (own / "secret").write_text(SECRET)
    (own / "outrider.toml").write_text(
        f'[targets."{TARGET}".credentials]\nreceiptsSecret = "file:{own}/secret"\n'
    )
    environment = {
        **os.environ, "OUTRIDER_DATABASE_URL": url, "OUTRIDER_REGISTRY": str(own / "registry.json"),
        "OUTRIDER_SPOOL": str(own / "spool"),
    }  # fmt: skip
    with (own / "server.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "outrider", "serve", "--port", "0", "--workers", "0", "--json",
            cwd=own, env=environment, stdout=asyncio.subprocess.PIPE, stderr=log,
        )  # fmt: skip
    assert process.stdout is not None
    try:
        yield json.loads(await process.stdout.readline())["url"]
    finally:
        process.terminate()
        await process.wait()


def signed(door: str, numbers: range, callback_receipts: int) -> list[Post]:
    """Callbacks with so many receipts each, signed beforehand."""
    return [
        standard_post(
            door, document(told(first, min(callback_receipts, numbers.stop - first))),
            "application/json", SECRET, datetime.now(UTC),
        )
        for first in range(numbers.start, numbers.stop, callback_receipts)
    ]  # fmt: skip


def document(receipts: Sequence[Receipt]) -> bytes:
    each = [ReceiptDocument.of(receipt) for receipt in receipts]
    return msgspec.json.encode(ReceiptsDocument(each))


async def posted(session: aiohttp.ClientSession, posts: Iterator[Post]) -> None:
    async def provider() -> None:
        for post in posts:
            async with session.post(post.url, data=post.body, headers=post.headers) as answer:
                assert answer.status == 200, await answer.text()

    await asyncio.gather(*(provider() for _ in range(CALLBACKS_AT_ONCE)))


async def measure_http(url: str, folder: Path) -> dict[str, float]:
    """Through a server's door: a part of them one by one, and the others in callbacks of many."""
    figures = {}
    singles = RECEIPTS // 10
    parts = {
        "single": (range(singles), 1),
        "of20": (range(singles, RECEIPTS // 2), CALLBACK_RECEIPTS),
        "of200": (range(RECEIPTS // 2, RECEIPTS), 200),
    }
    async with open_outrider(settings_of(url, folder)) as outrider:
        await outrider.store.migrate()
        run_id = await filled(url, RECEIPTS)
        figures["limit"] = RECEIPTS / await copied(url, told(0, RECEIPTS))
        stop = multiprocessing.get_context("spawn").Event()
        worker = multiprocessing.get_context("spawn").Process(
            target=matching, args=(url, str(folder), stop)
        )
        worker.start()
        async with serving(url, folder) as server, aiohttp.ClientSession() as session:
            await asyncio.sleep(3)
            for name, (numbers, callback_receipts) in parts.items():
                posts = signed(f"{server}/receipts/{TARGET}", numbers, callback_receipts)
                began = time.perf_counter()
                await posted(session, iter(posts))
                figures[f"{name}Taken"] = len(numbers) / (time.perf_counter() - began)
                await until_matched(outrider, run_id, numbers.stop)
                figures[f"{name}Matched"] = len(numbers) / (time.perf_counter() - began)
        stop.set()
        worker.join()
    return figures


async def sent_per_second(outrider: Outrider) -> float:
    run_id = await launch(outrider, [message(Channel.SMS, TARGET)], people(SENT))
    async with outrider.worker() as worker:
        began = time.perf_counter()
        role = asyncio.create_task(worker.run())
        await until_terminal(outrider, run_id)
        seconds = time.perf_counter() - began
        worker.stop()
        await role
    return SENT / seconds


async def behind(url: str, count: int) -> None:
    connection = await asyncpg.connect(url)
    place = (DEFAULT_SCOPE.tenant_id, DEFAULT_SCOPE.workspace_id)
    await connection.execute(WAITING, *place, TARGET, RECEIPTS, count)
    await connection.execute(
        "INSERT INTO waiting_receipts (id, workspace_id, submission_target, look_at)"
        " SELECT id, workspace_id, submission_target, received_at FROM receipts"
    )
    await connection.execute("VACUUM ANALYZE receipts")
    await connection.execute("VACUUM ANALYZE waiting_receipts")
    await connection.close()


async def waiting(url: str) -> int:
    connection = await asyncpg.connect(url)
    left: int = await connection.fetchval("SELECT count(*) FROM waiting_receipts")
    await connection.close()
    return left


async def measure_behind(url: str, folder: Path) -> dict[str, float]:
    """In turns, so that whatever else the machine does falls on both; the medians are compared."""
    plain = await create_database(url)
    async with (
        open_outrider(settings_of(plain, folder)) as alone,
        open_outrider(settings_of(url, folder)) as beside,
    ):
        for each in (alone, beside):
            await each.store.migrate()
            await sent_per_second(each)
        await filled(url, RECEIPTS)
        await behind(url, BEHIND)
        figures = [
            (await sent_per_second(alone), await sent_per_second(beside)) for _ in range(ROUNDS)
        ]
        left = await waiting(url)
    sent, sent_beside = (median(column) for column in zip(*figures, strict=True))
    return {
        "sentPerSecond": sent,
        "sentPerSecondBehind": sent_beside,
        "ratio": sent_beside / sent,
        "matchedMeanwhile": BEHIND - left,
    }


def quiet() -> None:
    import logging

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


def main() -> None:
    quiet()
    wanted = sys.argv[1:] or ["taken", "http", "behind"]
    measures = {"taken": measure_taken, "http": measure_http, "behind": measure_behind}
    with tempfile.TemporaryDirectory(prefix="receipts-") as name:
        server = PrivatePostgres(Path(name) / "postgres")
        for each in wanted:
            url = asyncio.run(create_database(server.url))
            folder = Path(name) / each
            folder.mkdir()
            figures = asyncio.run(measures[each](url, folder))
            print(json.dumps({each: {what: round(figure, 3) for what, figure in figures.items()}}))
        server.close()


if __name__ == "__main__":
    main()
