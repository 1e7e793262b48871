"""The limit on SQLite: apsw, write-ahead log, an fsync with every commit, one worker."""

import time
from collections.abc import Callable
from importlib.metadata import version

import apsw

from outrider.system import SystemIds
from systems.child import Request, tell_start
from systems.crew import ProcessCrew, wait_for_go
from systems.raw_rows import ASSET, CAMPAIGN, RUN, TENANT, WORKSPACE, key, members, windows

LOOK_SECONDS = 0.002
"""SQLite announces no new rows; the cheapest poll is its change counter."""
BUSY_MS = 30_000
IDS = SystemIds()

SCHEMA = """
CREATE TABLE members (
  campaign_id text, position int, recipient_id text, email text, phone text, attributes text,
  PRIMARY KEY (campaign_id, position), UNIQUE (campaign_id, recipient_id)) WITHOUT ROWID;
CREATE TABLE jobs (
  id text PRIMARY KEY, run_id text, first_position int, last_position int, item_count int,
  status text DEFAULT 'queued', fence int DEFAULT 0, locked_by text, lease_expires_at text,
  sent int DEFAULT 0, created_at text, updated_at text);
CREATE INDEX jobs_due ON jobs (id) WHERE status = 'queued';
CREATE TABLE outbox (
  id text PRIMARY KEY, tenant_id text, workspace_id text, origin text, run_id text, job_id text,
  channel text, provider text, submission_target text, contract_id int, recipient_id text,
  recipient_address text, asset_id text, asset_version int, idempotency_key blob, status text,
  intent_status text, attempts int, attempt_fence int, attempt_opened_at text,
  attempt_closed_at text, progress text, created_at text, updated_at text,
  UNIQUE (tenant_id, workspace_id, idempotency_key));
CREATE INDEX outbox_by_run ON outbox (run_id, job_id, id);
CREATE INDEX outbox_singles ON outbox (id) WHERE run_id IS NULL AND status = 'queued';
CREATE TABLE run_events (
  sequence integer PRIMARY KEY, run_id text, type text, job_id text, payload text, created_at text);
"""
CLAIM = """
UPDATE jobs SET status = 'locked', fence = fence + 1, locked_by = 'raw', updated_at = datetime()
 WHERE id = (SELECT id FROM jobs WHERE status = 'queued' ORDER BY id LIMIT 1)
RETURNING id, first_position, last_position, fence
"""
LOAD = "SELECT recipient_id, phone FROM members WHERE campaign_id = ? AND position BETWEEN ? AND ?"
RESERVE = """
INSERT INTO outbox (
  id, tenant_id, workspace_id, origin, run_id, job_id, channel, provider, submission_target,
  contract_id, recipient_id, recipient_address, asset_id, asset_version, idempotency_key, status,
  intent_status, attempts, attempt_fence, attempt_opened_at, created_at, updated_at)
VALUES (?, ?, ?, 'campaign', ?, ?, 'sms', 'noop', 'bench', 1, ?, ?, ?, 1, ?, 'queued', 'PENDING', 1,
        ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
CLOSE = """
UPDATE outbox SET status = 'sent', intent_status = 'ACCEPTED', progress = 'ANSWERED',
       attempt_closed_at = ?, updated_at = ? WHERE run_id = ? AND job_id = ? AND status = 'queued'
"""
SETTLE = "UPDATE jobs SET status = 'completed', sent = ?, locked_by = NULL WHERE id = ?"
TELL = "INSERT INTO run_events (run_id, type, job_id, payload) VALUES (?, 'StepCompleted', ?, ?)"
SINGLE = """
INSERT INTO outbox (id, tenant_id, workspace_id, origin, channel, provider, recipient_id,
                    idempotency_key, status, intent_status, attempts)
VALUES (?, ?, ?, 'intent', 'sms', 'noop', ?, ?, 'queued', 'PENDING', 0)
"""
TAKE_SINGLES = """
UPDATE outbox SET attempts = 1, attempt_opened_at = datetime()
 WHERE run_id IS NULL AND status = 'queued' AND attempt_opened_at IS NULL RETURNING id
"""
CLOSE_SINGLE = "UPDATE outbox SET status = 'sent', attempt_closed_at = datetime() WHERE id = ?"


def connect(folder: str) -> apsw.Connection:
    connection = apsw.Connection(f"{folder}/raw.db")
    connection.set_busy_timeout(BUSY_MS)
    for pragma in ("journal_mode = wal", "synchronous = full", "wal_autocheckpoint = 4000"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


class RawSqlite:
    version = f"apsw {version('apsw')}"

    def __init__(self, request: Request) -> None:
        self._request = request
        self._position = 0

    async def prepare(self) -> None:
        self._connection = connect(self._request.folder)
        self._connection.execute(SCHEMA)

    async def fill_terminal(self, rows: int) -> None:
        assert not rows, "the limit on SQLite is measured on an empty database only"

    async def enqueue(self, count: int) -> None:
        first, self._position = self._position, self._position + count

        def script() -> None:
            self._connection.executemany(
                "INSERT INTO members VALUES (?, ?, ?, ?, ?, ?)",
                ((CAMPAIGN, *member) for member in members(first, count)),
            )
            self._connection.executemany(
                "INSERT INTO jobs (id, run_id, first_position, last_position) VALUES (?, ?, ?, ?)",
                ((IDS.new(), RUN, *window) for window in windows(first, count)),
            )

        committed(self._connection, script)

    async def done(self) -> int:
        return self._ask("SELECT coalesce(sum(sent), 0) FROM jobs")

    async def recorded(self) -> int:
        return self._ask("SELECT count(*) FROM outbox WHERE status = 'sent'")

    async def enqueue_one(self, number: int) -> None:
        recipient = f"single-{number}"
        given = (IDS.new(), TENANT, WORKSPACE, recipient, bytes.fromhex(key(recipient)))
        committed(self._connection, lambda: self._connection.execute(SINGLE, given))

    def crew(self) -> ProcessCrew:
        return ProcessCrew("systems.raw_sql", self._request)

    async def close(self) -> None:
        self._connection.close()

    def _ask(self, sql: str) -> int:
        return int(next(iter(self._connection.execute(sql)))[0])


def committed(connection: apsw.Connection, script: Callable[[], object]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    script()
    connection.execute("COMMIT")


async def work(request: Request) -> None:
    connection = connect(request.folder)
    wait_for_go()
    take = _singles if request.measure in ("latency", "idle") else _window
    seen = -1
    # The default of SIGTERM ends it: what is committed is committed.
    while True:
        version_now = next(iter(connection.execute("PRAGMA data_version")))[0]
        if version_now == seen:
            time.sleep(LOOK_SECONDS)  # noqa: ASYNC251 - nothing else runs here
        elif not take(connection):
            seen = version_now


def _window(connection: apsw.Connection) -> bool:
    connection.execute("BEGIN IMMEDIATE")
    job = next(iter(connection.execute(CLAIM)), None)
    connection.execute("COMMIT")
    if job is None:
        return False
    job_id, first, last, fence = job
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    loaded = list(connection.execute(LOAD, (CAMPAIGN, first, last)))
    rows = [
        (outbox_id, TENANT, WORKSPACE, RUN, job_id, recipient, phone, ASSET,
         bytes.fromhex(key(recipient)), fence, now, now, now)
        for outbox_id, (recipient, phone) in zip(IDS.batch(len(loaded)), loaded, strict=True)
    ]  # fmt: skip
    committed(connection, lambda: connection.executemany(RESERVE, rows))
    for _ in rows:
        tell_start()

    def close() -> None:
        connection.execute(CLOSE, (now, now, RUN, job_id))
        connection.execute(SETTLE, (len(rows), job_id))
        connection.execute(TELL, (RUN, job_id, f'{{"sent": {len(rows)}}}'))

    committed(connection, close)
    return True


def _singles(connection: apsw.Connection) -> bool:
    connection.execute("BEGIN IMMEDIATE")
    taken = [row[0] for row in connection.execute(TAKE_SINGLES)]
    connection.execute("COMMIT")
    for _ in taken:
        tell_start()
    if taken:
        committed(
            connection, lambda: connection.executemany(CLOSE_SINGLE, ((each,) for each in taken))
        )
    return bool(taken)
