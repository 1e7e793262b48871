-- Alerts: raised once, counted while they are open, resolved when their cause is gone.

-- name: raise_alert
-- If the alert is already open, it is counted instead.
INSERT INTO alerts (id, tenant_id, workspace_id, code, severity, subject, message, detail,
                    raised_at, last_seen_at)
VALUES (:id, :tenant_id, :workspace_id, :code, :severity, :subject, :message, :detail, :now, :now)
ON CONFLICT (code, subject, workspace_id) WHERE resolved_at IS NULL DO UPDATE
   SET times = alerts.times + 1, last_seen_at = excluded.last_seen_at,
       message = excluded.message, detail = excluded.detail
RETURNING times;

-- name: resolve_alert
UPDATE alerts SET resolved_at = :now
 WHERE code = :code AND subject = :subject AND resolved_at IS NULL
RETURNING id::text;

-- name: resolve_workspace_alert
UPDATE alerts SET resolved_at = :now
 WHERE code = :code AND subject = :subject AND workspace_id::text = :workspace_id
   AND resolved_at IS NULL
RETURNING id::text;

-- name: alerts_page
SELECT id::text, code, severity, subject, message, detail, times, raised_at, last_seen_at,
       resolved_at
  FROM alerts
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id < :before
   AND (NOT :only_open::boolean OR resolved_at IS NULL)
 ORDER BY alerts.id DESC LIMIT :most;

-- name: count_standing_alerts
SELECT code, count(*) FROM alerts WHERE resolved_at IS NULL GROUP BY code;
