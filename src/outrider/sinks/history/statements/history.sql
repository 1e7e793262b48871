-- The history's own statements, the same in Snowflake, Postgres and DuckDB.

-- name: take_turn
-- Locks the row until the commit: the next writer waits here and then sees all that was written.
UPDATE history_writer SET turns = turns + 1;

-- name: merge_run_events
MERGE INTO run_events USING staged_run_events AS staged
   ON run_events.run_id = staged.run_id AND run_events.run_seq = staged.run_seq
 WHEN NOT MATCHED THEN
  INSERT (run_id, run_seq, type, occurred_at, step_id, logical_attempt, engine_attempt, payload,
          emitter, plan_version, idempotency_key, contract_version, tenant_id, tenant, workspace_id,
          project, environment, campaign_id, campaign, phase, channel, intended)
  VALUES (staged.run_id, staged.run_seq, staged.type, staged.occurred_at, staged.step_id,
          staged.logical_attempt, staged.engine_attempt, staged.payload, staged.emitter,
          staged.plan_version, staged.idempotency_key, staged.contract_version, staged.tenant_id,
          staged.tenant, staged.workspace_id, staged.project, staged.environment,
          staged.campaign_id, staged.campaign, staged.phase, staged.channel, staged.intended);

-- name: merge_run_snapshots
MERGE INTO run_snapshots USING staged_run_snapshots AS staged
   ON run_snapshots.run_id = staged.run_id AND run_snapshots.run_seq = staged.run_seq
 WHEN NOT MATCHED THEN
  INSERT (run_id, run_seq, status, occurred_at, started_at, completed_at, steps, failed_steps,
          document, tenant_id, tenant, workspace_id, project, environment, campaign_id, campaign,
          phase, channel, intended)
  VALUES (staged.run_id, staged.run_seq, staged.status, staged.occurred_at, staged.started_at,
          staged.completed_at, staged.steps, staged.failed_steps, staged.document,
          staged.tenant_id, staged.tenant, staged.workspace_id, staged.project,
          staged.environment, staged.campaign_id, staged.campaign, staged.phase, staged.channel,
          staged.intended);

-- name: clear_staged_run_events
DELETE FROM staged_run_events;

-- name: clear_staged_run_snapshots
DELETE FROM staged_run_snapshots;

-- name: events_after
SELECT run_id, run_seq, type, occurred_at, step_id, logical_attempt, engine_attempt, payload,
       emitter, plan_version, idempotency_key, contract_version
  FROM run_events
 WHERE (run_id > :run_id OR (run_id = :run_id AND run_seq > :run_seq)) AND run_id <= :last
 ORDER BY run_id, run_seq LIMIT :most;

-- name: counts
-- Of the runs between these two.
SELECT run_id, count(*) FROM run_events WHERE run_id >= :first AND run_id <= :last GROUP BY run_id;
