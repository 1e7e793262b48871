"""A ledger that is already full: rows that ended long ago, made by one statement in the server."""

import asyncpg

CAMPAIGN_ROWS = 100_000
"""How many of them belong to one run, as if there had been many campaigns."""

FILL = """
INSERT INTO channel_outbox (
  id, tenant_id, workspace_id, origin, run_id, job_id, channel, provider, submission_target,
  contract_id, recipient_id, recipient_address, asset_id, asset_version, idempotency_key, status,
  skipped, intent_status, attempts, attempt_fence, attempt_opened_at, attempt_closed_at, progress,
  created_at, updated_at)
SELECT uuidv7(), '00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000002',
       'campaign', md5((number / $2)::text)::uuid, md5((number / 500)::text)::uuid, 'sms', 'noop',
       'bench', 1, 'former-' || number, '+44770' || number, md5('asset')::uuid, 1,
       sha256(number::text::bytea), 'sent', false, 'ACCEPTED', 1, 1, now(), now(), 'ANSWERED',
       now(), now()
  FROM generate_series(1, $1::bigint) AS number
"""


async def fill_terminal(connection: "asyncpg.Connection[asyncpg.Record]", rows: int) -> None:
    await connection.execute(FILL, rows, CAMPAIGN_ROWS, timeout=3_600)
    await connection.execute("VACUUM (ANALYZE) channel_outbox", timeout=3_600)
