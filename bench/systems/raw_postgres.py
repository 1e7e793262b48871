"""The limit on Postgres: asyncpg, prepared statements, windows as one JSON array, LISTEN."""

import asyncio
import signal
from importlib.metadata import version

import asyncpg
import msgspec

from systems.child import Request, tell_start
from systems.crew import ProcessCrew, wait_for_go
from systems.raw_rows import (
    ASSET,
    CAMPAIGN,
    IN_PARALLEL,
    RUN,
    TENANT,
    WORKSPACE,
    key,
    members,
    windows,
)

IDLE_SECONDS = 0.02
CHANNEL = "raw_singles"

SCHEMA = """
CREATE TABLE members (
  campaign_id uuid, position int, recipient_id text, email text, phone text, attributes json,
  PRIMARY KEY (campaign_id, position), UNIQUE (campaign_id, recipient_id));
CREATE TABLE jobs (
  id uuid PRIMARY KEY DEFAULT uuidv7(), run_id uuid, first_position int, last_position int,
  item_count int, status text DEFAULT 'queued', fence bigint DEFAULT 0, locked_by text,
  lease_expires_at timestamptz, sent int DEFAULT 0, created_at timestamptz DEFAULT now(),
  updated_at timestamptz DEFAULT now());
CREATE INDEX jobs_due ON jobs (id) WHERE status = 'queued';
CREATE TABLE outbox (
  id uuid PRIMARY KEY DEFAULT uuidv7(), tenant_id uuid, workspace_id uuid, origin text,
  run_id uuid, job_id uuid, channel text, provider text, submission_target text, contract_id int,
  recipient_id text, recipient_address text, asset_id uuid, asset_version int,
  idempotency_key bytea, status text, intent_status text, attempts int, attempt_fence bigint,
  attempt_opened_at timestamptz, attempt_closed_at timestamptz, progress text,
  created_at timestamptz, updated_at timestamptz,
  UNIQUE (tenant_id, workspace_id, idempotency_key)) WITH (fillfactor = 70);
CREATE INDEX outbox_by_run ON outbox (run_id, job_id, id);
CREATE INDEX outbox_singles ON outbox (id) WHERE run_id IS NULL AND status = 'queued';
CREATE TABLE run_events (
  run_id uuid, sequence bigint GENERATED ALWAYS AS IDENTITY, type text, job_id uuid,
  payload json, created_at timestamptz DEFAULT now(), PRIMARY KEY (run_id, sequence));
"""
ENQUEUE_JOBS = """
INSERT INTO jobs (run_id, first_position, last_position, item_count)
SELECT $1, first, last, last - first + 1 FROM unnest($2::int[], $3::int[]) AS job (first, last)
"""
CLAIM = """
UPDATE jobs SET status = 'locked', fence = fence + 1, locked_by = 'raw', updated_at = now(),
       lease_expires_at = now() + interval '30 seconds'
 WHERE id = (SELECT id FROM jobs WHERE status = 'queued' ORDER BY id LIMIT 1
                FOR UPDATE SKIP LOCKED)
RETURNING id, first_position, last_position, fence
"""
LOAD = """
SELECT recipient_id, phone, attributes FROM members
 WHERE campaign_id = $1 AND position BETWEEN $2 AND $3 ORDER BY position
"""
HOLD = """
UPDATE jobs SET lease_expires_at = now() + interval '30 seconds'
 WHERE id = $1 AND fence = $2 AND status = 'locked' RETURNING id
"""
RESERVE = """
INSERT INTO outbox (
  tenant_id, workspace_id, origin, run_id, job_id, channel, provider, submission_target,
  contract_id, recipient_id, recipient_address, asset_id, asset_version, idempotency_key, status,
  intent_status, attempts, attempt_fence, attempt_opened_at, created_at, updated_at)
SELECT $2, $3, 'campaign', $4, $5, 'sms', 'noop', 'bench', 1, r, a, $6, 1, decode(k, 'hex'),
       'queued', 'PENDING', 1, $7, now(), now(), now()
  FROM json_to_recordset($1) AS item (r text, a text, k text)
ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING RETURNING id
"""
CLOSE = """
UPDATE outbox SET status = 'sent', intent_status = 'ACCEPTED', progress = 'ANSWERED',
       attempt_closed_at = now(), updated_at = now()
 WHERE id = ANY ($1) AND status = 'queued' AND attempt_fence = $2
"""
SETTLE = """
UPDATE jobs SET status = 'completed', sent = $2, locked_by = NULL, lease_expires_at = NULL,
       updated_at = now() WHERE id = $1
"""
TELL = "INSERT INTO run_events (run_id, type, job_id, payload) VALUES ($1, 'StepCompleted', $2, $3)"
SINGLE = """
INSERT INTO outbox (
  tenant_id, workspace_id, origin, channel, provider, submission_target, contract_id,
  recipient_id, recipient_address, idempotency_key, status, intent_status, attempts, created_at,
  updated_at)
VALUES ($1, $2, 'intent', 'sms', 'noop', 'bench', 1, $3, '+447700900000', decode($4, 'hex'),
        'queued', 'PENDING', 0, now(), now())
"""
TAKE_SINGLES = """
UPDATE outbox SET attempts = 1, attempt_fence = 1, attempt_opened_at = now(), updated_at = now()
 WHERE id IN (SELECT id FROM outbox WHERE run_id IS NULL AND status = 'queued'
                 AND attempt_opened_at IS NULL FOR UPDATE SKIP LOCKED) RETURNING id
"""
FILL = """
INSERT INTO outbox (
  tenant_id, workspace_id, origin, run_id, job_id, channel, provider, submission_target,
  contract_id, recipient_id, recipient_address, asset_id, asset_version, idempotency_key, status,
  intent_status, attempts, attempt_fence, attempt_opened_at, attempt_closed_at, progress,
  created_at, updated_at)
SELECT $2, $3, 'campaign', md5((number / 100000)::text)::uuid, md5((number / 500)::text)::uuid,
       'sms', 'noop', 'bench', 1, 'former-' || number, '+44770' || number, $4, 1,
       sha256(number::text::bytea), 'sent', 'ACCEPTED', 1, 1, now(), now(), 'ANSWERED', now(), now()
  FROM generate_series(1, $1::bigint) AS number
"""


class RawPostgres:
    version = f"asyncpg {version('asyncpg')}"

    def __init__(self, request: Request) -> None:
        self._request = request
        self._position = 0

    async def prepare(self) -> None:
        self._connection = await asyncpg.connect(self._request.database)
        await self._connection.execute(SCHEMA)

    async def fill_terminal(self, rows: int) -> None:
        if rows:
            await self._connection.execute(FILL, rows, TENANT, WORKSPACE, ASSET, timeout=3_600)
            await self._connection.execute("VACUUM (ANALYZE) outbox", timeout=3_600)

    async def enqueue(self, count: int) -> None:
        first, self._position = self._position, self._position + count
        ranges = list(windows(first, count))
        async with self._connection.transaction():
            await self._connection.copy_records_to_table(
                "members", records=((CAMPAIGN, *member) for member in members(first, count))
            )
            await self._connection.execute(
                ENQUEUE_JOBS, RUN, [each[0] for each in ranges], [each[1] for each in ranges]
            )

    async def done(self) -> int:
        return int(await self._connection.fetchval("SELECT coalesce(sum(sent), 0) FROM jobs"))

    async def recorded(self) -> int:
        return int(
            await self._connection.fetchval("SELECT count(*) FROM outbox WHERE status = 'sent'")
        )

    async def enqueue_one(self, number: int) -> None:
        recipient = f"single-{number}"
        async with self._connection.transaction():
            await self._connection.execute(SINGLE, TENANT, WORKSPACE, recipient, key(recipient))
            await self._connection.execute(f"NOTIFY {CHANNEL}")

    def crew(self) -> ProcessCrew:
        return ProcessCrew("systems.raw_sql", self._request)

    async def close(self) -> None:
        await self._connection.close()


async def work(request: Request) -> None:
    stopping, woken = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    listener = await asyncpg.connect(request.database)
    await listener.add_listener(CHANNEL, lambda *_: woken.set())
    pool = await asyncpg.create_pool(request.database, min_size=IN_PARALLEL, max_size=IN_PARALLEL)
    wait_for_go()
    singles = request.measure in ("latency", "idle")
    loops = [_singles(pool, woken)] if singles else [_drain(pool) for _ in range(IN_PARALLEL)]
    running = [asyncio.create_task(each) for each in loops]
    await asyncio.wait(
        [asyncio.create_task(stopping.wait()), *running], return_when=asyncio.FIRST_COMPLETED
    )
    for task in running:
        if task.done():
            task.result()
        task.cancel()
    await asyncio.wait(running)
    pool.terminate()
    listener.terminate()


async def _drain(pool: "asyncpg.Pool[asyncpg.Record]") -> None:
    async with pool.acquire() as connection:
        while True:
            job = await connection.fetchrow(CLAIM)
            if job is None:
                await asyncio.sleep(IDLE_SECONDS)
                continue
            job_id, first, last, fence = job
            loaded = await connection.fetch(LOAD, CAMPAIGN, first, last)
            window = msgspec.json.encode(
                [{"r": each[0], "a": each[1], "k": key(each[0])} for each in loaded]
            ).decode()
            async with connection.transaction():
                assert await connection.fetchval(HOLD, job_id, fence) is not None
                rows = await connection.fetch(
                    RESERVE, window, TENANT, WORKSPACE, RUN, job_id, ASSET, fence
                )
            for _ in rows:
                tell_start()
            async with connection.transaction():
                await connection.execute(CLOSE, [row[0] for row in rows], fence)
                await connection.execute(SETTLE, job_id, len(rows))
                await connection.execute(TELL, RUN, job_id, f'{{"sent": {len(rows)}}}')


async def _singles(pool: "asyncpg.Pool[asyncpg.Record]", woken: asyncio.Event) -> None:
    async with pool.acquire() as connection:
        while True:
            await woken.wait()
            woken.clear()
            rows = await connection.fetch(TAKE_SINGLES)
            for _ in rows:
                tell_start()
            await connection.execute(CLOSE, [row[0] for row in rows], 1)
