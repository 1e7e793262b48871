-- Changes of a phase past the state machine that no server has read yet: to log, and to bring the
-- phase and its run back together. The audit log keeps each for good; from here whoever has dealt
-- with one takes it away, so what happened while no server ran is found by the next one.
CREATE TABLE unread_bypasses (
  id text PRIMARY KEY,
  campaign_id text NOT NULL,
  phase text NOT NULL
) STRICT;

DROP TRIGGER campaign_phases_watched;
CREATE TRIGGER campaign_phases_watched AFTER UPDATE OF state ON campaign_phases
  WHEN OLD.state <> NEW.state AND NOT (NEW.last_sequence > OLD.last_sequence AND EXISTS (
    SELECT 1 FROM campaign_events e
     WHERE e.campaign_id = NEW.campaign_id AND e.sequence = NEW.last_sequence
       AND e.phase = NEW.phase
       AND NEW.state = CASE e.type WHEN 'phase_started' THEN 'in_progress'
                                   WHEN 'phase_resumed' THEN 'in_progress'
                                   WHEN 'phase_paused' THEN 'paused'
                                   WHEN 'phase_completed' THEN 'completed'
                                   WHEN 'phase_failed' THEN 'failed' END))
BEGIN
  INSERT INTO campaign_audit_log (id, tenant_id, workspace_id, campaign_id, run_id, actor, event,
                                  detail, created_at)
  SELECT substr(stamp, 1, 8) || '-' || substr(stamp, 9) || '-7' || substr(noise, 1, 3) || '-8'
           || substr(noise, 4, 3) || '-' || substr(noise, 7, 12),
         c.tenant_id, c.workspace_id, c.id, NEW.run_id, 'database', 'phase.transition_bypassed',
         json_object('phase', NEW.phase, 'from_status', OLD.state, 'to_status', NEW.state,
                     'caller', coalesce(NEW.bypass_caller, 'sql'),
                     'reason', coalesce(NEW.bypass_reason, 'unknown')),
         strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z'
    FROM campaigns c,
         (SELECT printf('%012x', CAST(unixepoch('subsec') * 1000 AS integer)) AS stamp,
                 lower(hex(randomblob(9))) AS noise) made
   WHERE c.id = NEW.campaign_id;
  INSERT INTO unread_bypasses (id, campaign_id, phase)
  SELECT id, NEW.campaign_id, NEW.phase FROM campaign_audit_log WHERE rowid = last_insert_rowid();
END;
