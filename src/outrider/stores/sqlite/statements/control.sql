-- The control plane, in SQLite's dialect: phases, their events and their own jobs.

-- name: serialise_controls
-- One control of a campaign at a time; here every writer is alone anyway.
SELECT id FROM campaigns WHERE id = :campaign_id;

-- name: lock_phases
SELECT phase, state, run_id, last_sequence FROM campaign_phases
 WHERE campaign_id = :campaign_id ORDER BY ordinal;

-- name: pause_jobs
UPDATE job_queue SET paused = 1, suspension_seen = 0, updated_at = :now
 WHERE run_id = :run_id AND outcome IS NULL;

-- name: resume_jobs
UPDATE job_queue SET paused = 0, updated_at = :now
 WHERE run_id = :run_id AND outcome IS NULL;

-- name: cancel_jobs
-- Due at once, so that a worker ends them; who holds one opens no more attempts.
UPDATE job_queue SET cancelled = 1, paused = 0, suspension_seen = 0, queue_group = 'cancelled',
       updated_at = :now, status = CASE status WHEN 'failed' THEN 'queued' ELSE status END, run_at = :now
 WHERE run_id = :run_id AND outcome IS NULL;

-- name: suspensions
-- Of the jobs that a worker still holds, whether each was paused or stopped.
SELECT j.id, j.paused OR j.cancelled
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS fence FROM json_each(:window)) held
  JOIN job_queue j ON j.id = held.id AND j.fence = held.fence AND j.status = 'locked';

-- name: see_suspensions
-- Whoever paused or stopped them may rely on it: no call of these begins any more.
UPDATE job_queue AS j SET suspension_seen = true
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS fence FROM json_each(:window)) held
 WHERE j.id = held.id AND j.fence = held.fence AND j.status = 'locked';

-- name: suspensions_unseen
SELECT EXISTS (SELECT 1 FROM job_queue
                WHERE run_id = :run_id AND status = 'locked' AND (paused OR cancelled)
                  AND NOT suspension_seen);

-- name: stop_run
-- A run that has ended by itself just now was not stopped.
UPDATE campaign_runs SET stopped_at = :now
 WHERE id = :run_id AND stopped_at IS NULL AND finished_at IS NULL;

-- name: claimed_phase_jobs
SELECT j.id, j.tenant_id, j.workspace_id, r.campaign_id, j.run_id, j.job_type, j.item_count,
       j.attempts, j.max_attempts, j.fence, j.cancelled, j.detail, j.logical_attempt,
       r.plan_version, j.queue_group
  FROM job_queue j JOIN campaign_runs r ON r.id = j.run_id
 WHERE j.id IN (SELECT value ->> 0 FROM json_each(:window)) AND j.asset_id IS NULL
 ORDER BY j.id;

-- name: exclude_unsettled
-- What is in doubt, and what a verdict has just sent back: neither has an ending yet. And what the
-- provider accepted after somebody had settled it otherwise.
INSERT INTO retry_exclusions (campaign_id, run_id, outbox_id)
SELECT :campaign_id, :run_id, id FROM channel_outbox
 WHERE run_id = :previous_run_id
   AND (status = 'queued'
        OR (status IN ('failed', 'skipped')
            AND EXISTS (SELECT 1 FROM late_acceptances l WHERE l.outbox_id = channel_outbox.id)));

-- name: take_left_out
-- What earlier retries left out in doubt, and a verdict has since made part of the remainder.
UPDATE retry_exclusions SET taken_by = :run_id
 WHERE campaign_id = :campaign_id AND taken_by IS NULL
   AND EXISTS (SELECT 1 FROM channel_outbox o
                WHERE o.id = retry_exclusions.outbox_id
                  AND (o.status = 'failed' OR (o.status = 'skipped'
        AND o.reason IN ('cancelled', 'job_dead'))))
   AND NOT EXISTS (SELECT 1 FROM late_acceptances l WHERE l.outbox_id = retry_exclusions.outbox_id);

-- name: forget_left_out
-- Everybody is sent to again, and with them whoever was left out before.
UPDATE retry_exclusions SET taken_by = :run_id
 WHERE campaign_id = :campaign_id AND taken_by IS NULL;

-- name: count_left_in_doubt
SELECT count(*) FROM retry_exclusions x CROSS JOIN channel_outbox o ON o.id = x.outbox_id
 WHERE x.campaign_id = :campaign_id AND x.taken_by IS NULL AND o.doubted_at IS NOT NULL;

-- name: launch_chains
-- Each of these runs, and before it the ones whose remainder it took up, the latest first; of those
-- before, what they came to by the event that ended them.
WITH RECURSIVE chain (last_id, id, retry_of, intended, ended_seq, depth) AS (
  SELECT r.id, r.id, r.retry_of, r.intended, NULL, 0 FROM campaign_runs r
   WHERE r.id IN (SELECT value ->> 0 FROM json_each(:window))
  UNION ALL
  SELECT c.last_id, r.id, r.retry_of, r.intended,
         CASE WHEN r.finished_at IS NOT NULL THEN r.status_seq END, c.depth + 1
    FROM chain c CROSS JOIN campaign_runs r
   WHERE c.depth < :longest AND r.id = c.retry_of
)
SELECT c.last_id, c.id, c.intended, e.payload
  FROM chain c LEFT JOIN run_events e ON e.run_id = c.id AND e.run_seq = c.ended_seq
 ORDER BY c.last_id, c.depth;

-- name: count_left_failed
-- Of what retries left out, by campaign, what has failed since, and no later run took up.
SELECT x.campaign_id, count(*) FROM retry_exclusions x JOIN channel_outbox o ON o.id = x.outbox_id
 WHERE x.campaign_id IN (SELECT value ->> 0 FROM json_each(:window)) AND x.taken_by IS NULL AND o.status = 'failed'
 GROUP BY x.campaign_id;

-- name: still_left_out
-- Of these items, those that a retry left out, and no later run took up.
SELECT outbox_id FROM retry_exclusions
 WHERE campaign_id = :campaign_id AND taken_by IS NULL
   AND outbox_id IN (SELECT value ->> 0 FROM json_each(:window));

-- name: count_remainder
-- What a run left over, job by job: what failed, and what a stop cancelled; less what this retry
-- leaves out, and with what earlier ones did and it takes up.
SELECT j.id, j.asset_id, j.first_position, j.last_position, count(*)
  FROM job_queue j CROSS JOIN channel_outbox o ON o.run_id = j.run_id AND o.job_id = j.id
 WHERE j.run_id = :previous_run_id
   AND (o.status = 'failed' OR (o.status = 'skipped'
        AND o.reason IN ('cancelled', 'job_dead')))
   AND NOT EXISTS (SELECT 1 FROM retry_exclusions x
                    WHERE x.run_id = :run_id AND x.outbox_id = o.id)
 GROUP BY j.id
UNION ALL
SELECT j.id, j.asset_id, j.first_position, j.last_position, count(*)
  FROM retry_exclusions x CROSS JOIN channel_outbox o ON o.id = x.outbox_id
  CROSS JOIN job_queue j ON j.id = o.job_id
 WHERE x.taken_by = :run_id
 GROUP BY j.id;

-- name: load_remainder
-- With whether the provider has accepted it after all, in the run before or in one before that.
WITH RECURSIVE lineage (id, run_id, retry_job_id) AS (
  SELECT id, run_id, retry_job_id FROM job_queue WHERE id = :previous_job_id
  UNION
  SELECT j.id, j.run_id, j.retry_job_id
    FROM lineage JOIN job_queue j ON j.id = lineage.retry_job_id
), late AS MATERIALIZED (
  SELECT DISTINCT e.recipient_id
    FROM lineage JOIN channel_outbox e ON e.run_id = lineage.run_id AND e.job_id = lineage.id
   WHERE EXISTS (SELECT 1 FROM late_acceptances l WHERE l.outbox_id = e.id)
)
SELECT m.recipient_id,
       CASE :kind WHEN 1 THEN m.email WHEN 2 THEN m.phone WHEN 4 THEN m.push_token END,
       m.attributes, m.invalid, m.duplicate,
       o.recipient_id IN (SELECT recipient_id FROM late)
  FROM channel_outbox o CROSS JOIN audience_members m
    ON m.campaign_id = :campaign_id AND m.recipient_id = o.recipient_id
 WHERE o.run_id = (SELECT j.run_id FROM job_queue j WHERE j.id = :previous_job_id)
   AND o.job_id = :previous_job_id
   AND (o.status = 'failed' OR (o.status = 'skipped'
        AND o.reason IN ('cancelled', 'job_dead')))
   AND CASE WHEN o.run_id = :previous_run_id
            THEN NOT EXISTS (SELECT 1 FROM retry_exclusions x
                              WHERE x.run_id = :run_id AND x.outbox_id = o.id)
            ELSE EXISTS (SELECT 1 FROM retry_exclusions x
                          WHERE x.taken_by = :run_id AND x.outbox_id = o.id) END
 ORDER BY m.position;

-- name: campaign_events_after
SELECT sequence, type, phase, payload, created_at FROM campaign_events
 WHERE campaign_id = :campaign_id AND sequence > :after
 ORDER BY sequence LIMIT :most;

-- name: campaign_sequences
SELECT id, last_sequence FROM campaigns
 WHERE id IN (SELECT value ->> 0 FROM json_each(:window));

-- name: claim_progress
-- Whose progress was not told for a while; who asks tells it, and nobody else meanwhile.
UPDATE campaign_phases SET progress_at = :now
 WHERE (campaign_id, phase) IN (
   SELECT campaign_id, phase FROM campaign_phases
    WHERE state IN ('in_progress', 'paused') AND state = 'in_progress'
      AND (progress_at IS NULL OR progress_at <= :told_before)
    ORDER BY progress_at LIMIT :most)
RETURNING campaign_id, phase, run_id, progress;

-- name: save_progress
UPDATE campaign_phases SET progress = :progress
 WHERE campaign_id = :campaign_id AND phase = :phase;

-- name: prune_progress
DELETE FROM campaign_events
 WHERE campaign_id = :campaign_id AND phase = :phase AND type = 'campaign_progress'
   AND sequence < :before;

-- name: run_by_id_anywhere
SELECT id, campaign_id, phase, channel, status, intended, scheduled_for, retry_of, created_at,
       started_at, finished_at, stopped_at,
       (SELECT q.reason FROM run_requests q
         WHERE q.run_id = campaign_runs.id AND q.status = 'waiting')
  FROM campaign_runs WHERE id = :run_id;

-- name: set_phase_direct
-- Outside the state machine, and therefore seen by the trigger.
UPDATE campaign_phases
   SET state = :state, bypass_caller = :caller, bypass_reason = :reason,
       finished_at = CASE WHEN :ends THEN :now END, updated_at = :now
 WHERE campaign_id = :campaign_id AND phase = :phase;

-- name: end_bypass
UPDATE campaign_phases
   SET bypass_caller = NULL, bypass_reason = NULL, last_sequence = :sequence, reason = :reason
 WHERE campaign_id = :campaign_id AND phase = :phase;

-- name: disagreeing_phases
-- In flight, while their run has ended, was stopped or never was.
SELECT p.campaign_id, p.phase
  FROM campaign_phases p LEFT JOIN campaign_runs r ON r.id = p.run_id
 WHERE p.state IN ('in_progress', 'paused')
   AND (r.id IS NULL OR r.status IN ('completed', 'partial', 'failed') OR r.stopped_at IS NOT NULL)
   AND (p.campaign_id, p.phase) > (:after_campaign_id, :after_phase)
 ORDER BY p.campaign_id, p.phase LIMIT :most;

-- name: runs_left_running
-- Nobody has ended or stopped them, and their phase is not in flight, or has another run.
SELECT r.id, r.campaign_id, r.phase
  FROM campaign_runs r
  LEFT JOIN campaign_phases p ON p.campaign_id = r.campaign_id AND p.phase = r.phase
 WHERE r.finished_at IS NULL AND r.stopped_at IS NULL AND r.status IN ('queued', 'running')
   AND (p.state IN ('in_progress', 'paused') AND p.run_id = r.id) IS NOT TRUE
   AND r.id > :after
 ORDER BY r.id LIMIT :most;

-- name: running_runs
-- The runs of a campaign that nobody has ended or stopped: one, unless rows were changed by hand.
SELECT id, phase FROM campaign_runs
 WHERE campaign_id = :campaign_id AND (finished_at IS NULL) IS TRUE AND stopped_at IS NULL
   AND status IN ('queued', 'running');

-- name: phase_beside_run
-- A phase, the run it names, and what its stream was last told of it.
SELECT c.tenant_id, c.workspace_id, p.state, p.run_id, r.status,
       r.stopped_at IS NOT NULL, r.approved_at IS NOT NULL,
       EXISTS (SELECT 1 FROM job_queue j
                WHERE j.run_id = p.run_id AND j.outcome IS NULL AND j.paused),
       EXISTS (SELECT 1 FROM job_queue j
                WHERE j.run_id = p.run_id AND j.outcome IS NULL AND NOT j.paused),
       (SELECT e.type FROM campaign_events e
         WHERE e.campaign_id = p.campaign_id AND e.sequence = p.last_sequence)
  FROM campaign_phases p JOIN campaigns c ON c.id = p.campaign_id
  LEFT JOIN campaign_runs r ON r.id = p.run_id
 WHERE p.campaign_id = :campaign_id AND p.phase = :phase;

-- name: count_bypasses
SELECT count(*) FROM campaign_audit_log WHERE event = 'phase.transition_bypassed';

-- name: unread_bypasses_after
SELECT u.id, u.campaign_id, u.phase,
       (SELECT a.detail FROM campaign_audit_log a WHERE a.id = u.id)
  FROM unread_bypasses u
 WHERE u.id > :after ORDER BY u.id LIMIT :most;

-- name: forget_bypasses
DELETE FROM unread_bypasses WHERE id IN (SELECT value ->> 0 FROM json_each(:window));

-- name: count_members
SELECT count(*) FROM audience_members WHERE campaign_id = :campaign_id;

-- name: next_position
SELECT coalesce(max(position) + 1, 0) FROM audience_members WHERE campaign_id = :campaign_id;

-- name: members_between
SELECT position, recipient_id, email, phone, push_token, invalid FROM audience_members
 WHERE campaign_id = :campaign_id AND position BETWEEN :first AND :last ORDER BY position;

-- name: count_placed
-- How many of these are in the audience, and at these positions.
SELECT count(*) FROM json_each(:window) item CROSS JOIN audience_members m
    ON m.campaign_id = :campaign_id AND m.position = item.value ->> 0
   AND m.recipient_id = item.value ->> 1;

-- name: import_members
-- A second time changes nothing; an id that is there already is left out.
INSERT INTO audience_members (campaign_id, position, recipient_id, email, phone, push_token,
                              attributes, message_id, invalid)
SELECT :campaign_id, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
       value ->> 6, value ->> 7
  FROM json_each(:window) WHERE true
ON CONFLICT DO NOTHING;

-- name: import_new_members
-- Into an audience that has nobody yet, where an id that comes twice is refused.
INSERT INTO audience_members (campaign_id, position, recipient_id, email, phone, push_token,
                              attributes, message_id, invalid)
SELECT :campaign_id, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
       value ->> 6, value ->> 7
  FROM json_each(:window);

-- name: mark_invalid
UPDATE audience_members SET invalid = invalid | :kind
 WHERE campaign_id = :campaign_id
   AND position IN (SELECT value ->> 0 FROM json_each(:window));

-- name: member_for_preview
SELECT recipient_id, email, phone, push_token, attributes, invalid, duplicate FROM audience_members
 WHERE campaign_id = :campaign_id AND recipient_id = :recipient_id;

-- name: first_member
SELECT recipient_id, email, phone, push_token, attributes, invalid, duplicate FROM audience_members
 WHERE campaign_id = :campaign_id ORDER BY position LIMIT 1;

-- name: upload_totals
SELECT coalesce(max(chunk) + 1, 0), coalesce(max(first_position + record_count), 0)
  FROM audience_uploads WHERE campaign_id = :campaign_id;

-- name: insert_upload
INSERT INTO audience_uploads (campaign_id, chunk, first_position, record_count, records)
VALUES (:campaign_id, :chunk, :first_position, :record_count, :records);

-- name: uploads_of_campaign
SELECT chunk, first_position, record_count FROM audience_uploads
 WHERE campaign_id = :campaign_id ORDER BY chunk;

-- name: upload_by_chunk
SELECT records FROM audience_uploads WHERE campaign_id = :campaign_id AND chunk = :chunk;

-- name: repeated_uploads
-- Records whose id an earlier one has: their positions. The campaign's chunks are read once.
WITH given AS MATERIALIZED (
  SELECT u.first_position + record.key AS position,
         CASE record.type WHEN 'object' THEN record.value ->> 'id' END AS id
    FROM audience_uploads u CROSS JOIN json_each(u.records) record
   WHERE u.campaign_id = :campaign_id
), repeated AS (
  SELECT id, min(position) AS first FROM given GROUP BY id HAVING count(*) > 1
)
SELECT given.position FROM repeated JOIN given USING (id)
 WHERE given.position > repeated.first ORDER BY given.position;

-- name: save_artifact
INSERT INTO artifacts (id, tenant_id, workspace_id, campaign_id, run_id, name, media_type,
                       reference, sha256, size_bytes, created_at)
VALUES (:id, :tenant_id, :workspace_id, :campaign_id, :run_id, :name, :media_type, :reference,
        :sha256, :size_bytes, :now)
ON CONFLICT (run_id, name) DO UPDATE
   SET media_type = excluded.media_type, reference = excluded.reference, sha256 = excluded.sha256,
       size_bytes = excluded.size_bytes, created_at = excluded.created_at;

-- name: artifacts_of_campaign
SELECT id, run_id, name, media_type, reference, sha256, size_bytes, created_at FROM artifacts
 WHERE campaign_id = :campaign_id AND id > :after ORDER BY id LIMIT :most;

-- name: artifact_by_id
SELECT id, run_id, name, media_type, reference, sha256, size_bytes, created_at FROM artifacts
 WHERE id = :artifact_id AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: runs_page
SELECT id, campaign_id, phase, channel, status, intended, scheduled_for, retry_of, created_at,
       started_at, finished_at, stopped_at,
       (SELECT q.reason FROM run_requests q
         WHERE q.run_id = campaign_runs.id AND q.status = 'waiting')
  FROM campaign_runs WHERE campaign_id = :campaign_id AND id < :before
 ORDER BY id DESC LIMIT :most;

-- name: jobs_page
-- Jobs carry their counts; of one that ended with items in doubt, the rows are counted.
SELECT j.id, j.job_type, j.submission_target, j.status, j.outcome, j.attempts, j.item_count,
       CASE WHEN j.unended = 0 THEN j.sent ELSE (
         SELECT count(*) FROM channel_outbox o
          WHERE o.run_id = j.run_id AND o.job_id = j.id AND o.status IN ('sent', 'called', 'posted')) END,
       CASE WHEN j.unended = 0 THEN j.failed ELSE (
         SELECT count(*) FROM channel_outbox o
          WHERE o.run_id = j.run_id AND o.job_id = j.id AND o.status = 'failed') END,
       CASE WHEN j.unended = 0 THEN j.skipped ELSE (
         SELECT count(*) FROM channel_outbox o
          WHERE o.run_id = j.run_id AND o.job_id = j.id AND o.status = 'skipped') END,
       j.paused, j.cancelled, j.last_error, j.run_at, j.result, j.updated_at
  FROM job_queue j WHERE j.run_id = :run_id AND j.id > :after ORDER BY j.id LIMIT :most;

-- name: audit_of_workspace
SELECT id, created_at, actor, event, run_id, job_id, outbox_id, detail
  FROM campaign_audit_log
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id > :after
 ORDER BY id LIMIT :most;

-- name: suppressions_page
SELECT channel, address, topic, reason, source, evidence, includes_transactional, created_at
  FROM suppressions
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND (channel, address, topic) > (:after_channel, :after_address, :after_topic)
 ORDER BY channel, address, topic LIMIT :most;

-- name: delete_suppressions
DELETE FROM suppressions
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND (channel, address) IN (SELECT value ->> 0, lower(value ->> 1) FROM json_each(:window))
   AND (:topic IS NULL OR topic = :topic)
RETURNING address;

-- name: count_screened
-- What would become of everybody who gets this message, if it were sent now.
SELECT CASE WHEN :kind = 0 THEN NULL
            WHEN address IS NULL OR address = '' THEN 'no_address'
            WHEN invalid & :kind THEN 'invalid_address'
            WHEN duplicate & :kind THEN 'duplicate_address'
            WHEN EXISTS (SELECT 1 FROM suppressions s
                          WHERE s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id
                            AND s.channel = :channel AND s.address = lower(member.address)
                            AND (s.topic = '' OR s.topic = :topic)
                            AND (s.includes_transactional OR NOT :transactional))
              THEN 'suppressed' END AS why, count(*)
  FROM (SELECT CASE :kind WHEN 1 THEN email WHEN 2 THEN phone WHEN 4 THEN push_token END
                 AS address, invalid, duplicate
          FROM audience_members
         WHERE campaign_id = :campaign_id
           AND (message_id IS NULL OR message_id = :message_id)) member
 GROUP BY 1 ORDER BY 1;
