"""The search and one person's story over a large ledger, and how fast an audience is imported.

A ledger of campaigns, intents and workflow messages is written by SQL, with the keys that Outrider
itself would have written; then the real search and the real story are timed, each for people and
ids drawn at random. `ROWS=…` asks for another size; `python bench/people.py sqlite` or `postgres`
is one database alone. The figures are kept in `bench/people_results.json`, and
`bench/people_page.py` writes the table of docs/howto/people.md from it. With `KEPT=FOLDER` the
databases stay there: the first run fills them, which takes minutes, and later ones only look. Run
it from the project's folder, with `PYTHONPATH=.`.
"""

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

import structlog
from tests.support.raw_sql import Raw, raw_sql

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId
from outrider.domain.recipients import recipient
from outrider.domain.states import Channel
from outrider.kernel.transactions import audience
from outrider.limits.campaigns import IMPORT_WINDOW_ITEMS
from outrider.settings import Settings
from outrider.testing.launches import ACTOR, message, people, registry, target
from outrider.testing.postgres import PrivatePostgres, create_database, database_url

ROWS = int(os.environ.get("ROWS", "3000000"))
RESULTS = Path(__file__).with_name("people_results.json")
CAMPAIGNS = 100
SINGLE_SHARE = 10
"""Of so many rows one is an intent, and one a workflow's message."""
LOOKS = 200
RUN_ID = "01a00000-0000-7000-8001-{:012}"
IMPORTED = 100_000

NUMBERS = {
    "postgresql": "generate_series(0, {count} - 1) AS numbered (n)",
    "sqlite": "(WITH RECURSIVE c (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c"
    " WHERE n < {count} - 1) SELECT n FROM c) AS numbered",
}
IDS = {
    "postgresql": "gen_random_uuid()",
    "sqlite": "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-7' ||"
    " substr(hex(randomblob(2)), 2) || '-8' || substr(hex(randomblob(2)), 2) || '-' ||"
    " hex(randomblob(6)))",
}
PADDED = {
    "postgresql": "lpad(n::text, 8, '0')",
    "sqlite": "substr('00000000' || n, -8)",
}
KEYS = {"postgresql": "sha256(({key})::bytea)", "sqlite": "sha256({key})"}
"""The ledger's keys, as Outrider makes them."""

MEMBERS = """
INSERT INTO audience_members (campaign_id, position, recipient_id, email, phone, push_token,
  attributes)
SELECT '{campaign}', n, 'lead-' || n, 'Lead' || n || '@example.test', '+4477' || {padded},
       'device-token-of-lead-' || {padded}, '{{}}'
  FROM {numbers}
"""
EVENTS = """
INSERT INTO domain_events (id, tenant_id, workspace_id, event_id, trigger_name, occurred_at,
  subject, variables, fingerprint, status, created_at, updated_at)
SELECT {id}, '{tenant}', '{workspace}', 'event-' || n, 'bench', '{now}', '{{}}', '{{}}', {key},
       'routed', '{now}', '{now}'
  FROM {numbers}
"""
PROVIDER_MESSAGES = """
INSERT INTO provider_messages (provider_message_id, outbox_id)
SELECT 'provider-' || id, id FROM channel_outbox
"""
ITEMS = """
INSERT INTO channel_outbox (id, tenant_id, workspace_id, origin, run_id, job_id, channel, provider,
  submission_target, contract_id, recipient_id, recipient_address, idempotency_key, status, kind,
  template, intent_status, attempts, attempt_fence, attempt_opened_at, attempt_closed_at, progress,
  created_at, updated_at)
SELECT {id}, '{tenant}', '{workspace}', '{origin}', {run}, '{job}', 'sms', 'noop', 'noop', 1,
       {recipient}, '+4477' || {padded}, {key}, 'sent', {kind}, {kind}, 'ACCEPTED', 1, 1, '{now}',
       '{now}', 'ANSWERED', '{now}', '{now}'
  FROM {numbers}
"""


KEPT = os.environ.get("KEPT")
BUILT_LATER = (
    "SELECT indexname, indexdef FROM pg_indexes WHERE indexdef NOT LIKE 'CREATE UNIQUE%'"
    " AND tablename IN ('channel_outbox', 'audience_members')"
)


@contextmanager
def bench_folder() -> Iterator[Path]:
    if KEPT is None:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            yield Path(folder)
    else:
        yield Path(KEPT)


@contextmanager
def databases() -> Iterator[list[str]]:
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    with bench_folder() as folder:
        folder.mkdir(parents=True, exist_ok=True)
        urls = [] if chosen == "postgres" else [f"sqlite:///{folder}/outrider.db"]
        server = PrivatePostgres(folder / "postgres") if chosen != "sqlite" else None
        try:
            if server is not None:
                urls.append(_database(server, folder / "database"))
            yield urls
        finally:
            if server is not None:
                server.close()


def _database(server: PrivatePostgres, noted: Path) -> str:
    """The one that an earlier run left, or a new one."""
    if not noted.exists():
        noted.write_text(urlsplit(asyncio.run(create_database(server.url))).path)
    return database_url(server.url, noted.read_text().removeprefix("/"))


async def is_filled(database: str) -> bool:
    async with raw_sql(database) as raw:
        return bool(await raw.run("SELECT 1 FROM channel_outbox LIMIT 1"))


@asynccontextmanager
async def without_indexes(raw: Raw, scheme: str) -> AsyncIterator[None]:
    """On Postgres they are built in one go afterwards, and no trigger looks at rows meanwhile."""
    built_later = list(await raw.run(BUILT_LATER)) if scheme == "postgresql" else []
    if built_later:
        await raw.run("SET session_replication_role = replica")
        await raw.run("SET maintenance_work_mem = '1GB'")
    for name, _ in built_later:
        await raw.run(f"DROP INDEX {name}")
    yield
    for _, definition in built_later:
        await raw.run(definition)


async def fill(outrider: Outrider, database: str) -> None:
    """Campaigns with audiences and sent items."""
    scheme = database.partition(":")[0]
    campaign_rows = ROWS * (SINGLE_SHARE - 2) // SINGLE_SHARE // CAMPAIGNS
    numbers = NUMBERS[scheme].format(count=campaign_rows)
    now = "2026-03-01T10:00:00.000000Z"
    same = {
        "id": IDS[scheme], "tenant": DEFAULT_SCOPE.tenant_id, "padded": PADDED[scheme],
        "workspace": DEFAULT_SCOPE.workspace_id, "now": now,
        "job": "01a00000-0000-7000-8000-000000000001",
    }  # fmt: skip
    async with raw_sql(database) as raw, without_indexes(raw, scheme):
        for number in range(CAMPAIGNS):
            definition = CampaignDefinition(
                f"Campaign {number}", (LAUNCH,), (message(Channel.SMS, "noop"),), 500
            )
            campaign_id, _ = await outrider.deployer.create(DEFAULT_SCOPE, definition, [], ACTOR)
            asset_id = (
                await raw.run(f"SELECT id FROM assets WHERE campaign_id = '{campaign_id}'")
            )[0][0]
            run_id = RUN_ID.format(number)
            await raw.run(
                "INSERT INTO campaign_runs (id, tenant_id, workspace_id, campaign_id, phase,"
                " channel, intended, scheduled_for, created_at)"
                f" VALUES ('{run_id}', '{same['tenant']}', '{same['workspace']}', '{campaign_id}',"
                f" 'launch', 'sms', {campaign_rows}, '{now}', '{now}')"
            )
            given = {**same, "numbers": numbers, "campaign": campaign_id}
            await raw.run(MEMBERS.format(**given))
            await index(outrider, campaign_id, campaign_rows)
            key = f"'{run_id}|lead-' || n || '|{asset_id}|2026-03-01T10:00:00Z'"
            await raw.run(
                ITEMS.format(
                    **given, origin="campaign", run=f"'{run_id}'", kind="NULL",
                    recipient="'lead-' || n", key=KEYS[scheme].format(key=key),
                )
            )  # fmt: skip
        singles = NUMBERS[scheme].format(count=ROWS // SINGLE_SHARE)
        for origin, kind in (("intent", "NULL"), ("workflow", "'sms'")):
            key = KEYS[scheme].format(key=f"'{origin}|{origin}-' || n")
            await raw.run(
                ITEMS.format(
                    **same, numbers=singles, origin=origin, run="NULL", kind=kind, key=key,
                    recipient=f"'{origin}-' || n",
                )
            )  # fmt: skip
        key = KEYS[scheme].format(key="'event-' || n")
        await raw.run(EVENTS.format(**same, numbers=singles, key=key))
        await raw.run(PROVIDER_MESSAGES)
    async with raw_sql(database) as raw:
        await raw.run("ANALYZE")


class Timing(NamedTuple):
    """Of one kind of search, in milliseconds. `first` is the first look, with nothing in memory of
    what it reads; it is no part of the others."""

    first: float
    median: float
    within_99: float


async def timed(ask: Callable[[str], Awaitable[object]], texts: list[str]) -> Timing:
    taken = []
    for text in texts:
        began = time.perf_counter()
        await ask(text)
        taken.append((time.perf_counter() - began) * 1000)
    first, *rest = taken
    rest.sort()
    return Timing(round(first, 1), round(median(rest), 1), round(rest[int(len(rest) * 0.99)], 1))


async def searched(database: str) -> dict[str, list[str]]:
    """Texts of every kind that a search takes, drawn at random."""
    members = ROWS * (SINGLE_SHARE - 2) // SINGLE_SHARE // CAMPAIGNS
    some = [random.randrange(members) for _ in range(LOOKS)]
    async with raw_sql(database) as raw:
        campaigns = [row[0] for row in await raw.run("SELECT id FROM campaigns LIMIT 100")]
        # By an index, from places all over the ledger.
        items = [
            row
            for number in range(LOOKS // 20)
            for row in await raw.run(
                "SELECT id, idempotency_key FROM channel_outbox"
                f" WHERE run_id = '{RUN_ID.format(number * 7 % CAMPAIGNS)}' LIMIT 20"
            )
        ]
    return {
        "phone": [f"+4477{n:08}" for n in some],
        "email": [f"lead{n}@example.test" for n in some],
        "push token": [f"device-token-of-lead-{n:08}" for n in some],
        "recipient id": [f"lead-{n}" for n in some],
        "workflow's recipient": [f"workflow-{n}" for n in some],
        "campaign": [str(random.choice(campaigns)) for _ in some],
        "campaign's name": [f"campaign {n % CAMPAIGNS}" for n in some],
        "run": [RUN_ID.format(random.randrange(CAMPAIGNS)) for _ in some],
        "item": [str(item) for item, _ in items],
        "reference": [bytes(key).hex() for _, key in items],
        "provider's message id": [f"provider-{item}" for item, _ in items],
        "event": [f"event-{n % (ROWS // SINGLE_SHARE)}" for n in some],
        "intent": [f"intent-{n % (ROWS // SINGLE_SHARE)}" for n in some],
        "nothing": [f"no-such-{n}" for n in some],
    }


async def measure(database: str) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder) / "registry.json"
        path.write_bytes(registry(target("noop", "noop", "noop:")))
        settings = Settings(database_url=database, registry=path, spool=Path(folder) / "spool")
        async with open_outrider(settings) as outrider:
            await outrider.store.migrate()
            began, scheme = time.perf_counter(), database.partition(":")[0]
            if await is_filled(database):
                print(f"{scheme}: {ROWS:,} ledger rows of an earlier run")
            else:
                await fill(outrider, database)
                print(f"{scheme}: {ROWS:,} ledger rows in {time.perf_counter() - began:.0f} s")
                if KEPT is not None:
                    return
            await note(scheme, await looked_for(outrider, database))
            if KEPT is None:
                await imports(outrider)


async def looked_for(outrider: Outrider, database: str) -> dict[str, Timing]:
    """Every kind of search, and two stories. What one kind reads may help the next, so that the
    order is another one each time."""
    texts = await searched(database)
    timings: dict[str, Timing] = {}
    kinds = list(texts)
    random.shuffle(kinds)
    for kind in kinds:
        hits = await outrider.searcher.find(DEFAULT_SCOPE, texts[kind][0])
        assert bool(hits) == (kind != "nothing"), f"the search by {kind} found {hits}"
        timings[kind] = await timed(
            lambda text: outrider.searcher.find(DEFAULT_SCOPE, text), texts[kind][1:]
        )
    for kind in ("phone", "recipient id"):
        timings[f"story by {kind}"] = await timed(
            lambda text: outrider.person_reader.story(DEFAULT_SCOPE, text, 100), texts[kind]
        )
    return {
        kind: timings[kind] for kind in [*texts, *(each for each in timings if "story" in each)]
    }


async def note(scheme: str, timings: dict[str, Timing]) -> None:
    """Prints them, and keeps them with the size of the ledger: of each size, the latest run."""
    for kind, timing in timings.items():
        print(f"  {kind}: median {timing.median} ms, 99 of 100 within {timing.within_99} ms")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    results = [each for each in results if (each["rows"], each["database"]) != (ROWS, scheme)]
    results.append(
        {
            "database": scheme,
            "rows": ROWS,
            "load": round(os.getloadavg()[0], 1),
            "milliseconds": {kind: timing._asdict() for kind, timing in timings.items()},
        }
    )
    results.sort(key=lambda each: (each["rows"], each["database"]))
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


async def index(outrider: Outrider, campaign_id: CampaignId, count: int) -> None:
    """What an import writes so that its recipients are found by their addresses."""
    for first in range(0, count, IMPORT_WINDOW_ITEMS):
        window = [
            recipient(
                f"lead-{n}",
                email=f"Lead{n}@example.test",
                phone=f"+4477{n:08}",
                push_token=f"device-token-of-lead-{n:08}",
            )
            for n in range(first, min(first + IMPORT_WINDOW_ITEMS, count))
        ]
        await outrider.store.write(audience.index_addresses(campaign_id, first, window))


async def imports(outrider: Outrider) -> None:
    recipients = people(IMPORTED, prefix="imported")
    definition = CampaignDefinition("Imported", (LAUNCH,), (message(Channel.SMS, "noop"),), 500)
    began = time.perf_counter()
    await outrider.deployer.create(DEFAULT_SCOPE, definition, recipients, ACTOR)
    rate = IMPORTED / (time.perf_counter() - began)
    print(f"  recipients a second into a new campaign: {rate:,.0f}")


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with databases() as urls:
        for url in urls:
            asyncio.run(measure(url))


if __name__ == "__main__":
    main()
