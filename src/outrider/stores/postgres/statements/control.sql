-- The control plane, in Postgres's dialect: phases, their events and their own jobs.

-- name: serialise_controls
-- One control of a campaign at a time, before any row of it is locked.
SELECT pg_advisory_xact_lock(1869640814, hashtext(:campaign_id::uuid::text));

-- name: lock_phases
SELECT phase, state, run_id::text, last_sequence FROM campaign_phases
 WHERE campaign_id = :campaign_id ORDER BY ordinal FOR NO KEY UPDATE;

-- name: pause_jobs
-- In the order in which heartbeats lock them too.
WITH mine AS MATERIALIZED (
  SELECT id FROM job_queue
   WHERE run_id = :run_id AND outcome IS NULL ORDER BY id FOR NO KEY UPDATE
)
UPDATE job_queue AS j SET paused = true, suspension_seen = false, updated_at = :now
  FROM mine WHERE j.id = mine.id;

-- name: resume_jobs
WITH mine AS MATERIALIZED (
  SELECT id FROM job_queue
   WHERE run_id = :run_id AND outcome IS NULL ORDER BY id FOR NO KEY UPDATE
)
UPDATE job_queue AS j SET paused = false, updated_at = :now FROM mine WHERE j.id = mine.id;

-- name: cancel_jobs
-- Due at once, so that a worker ends them; who holds one opens no more attempts.
WITH mine AS MATERIALIZED (
  SELECT id FROM job_queue
   WHERE run_id = :run_id AND outcome IS NULL ORDER BY id FOR NO KEY UPDATE
)
UPDATE job_queue AS j SET cancelled = true, paused = false, suspension_seen = false,
       queue_group = 'cancelled', updated_at = :now, status = CASE status WHEN 'failed' THEN 'queued' ELSE status END, run_at = :now
  FROM mine WHERE j.id = mine.id;

-- name: suspensions
-- Of the jobs that a worker still holds, whether each was paused or stopped.
SELECT j.id::text, j.paused OR j.cancelled
  FROM json_to_recordset(:window) AS held (id uuid, fence bigint)
  JOIN job_queue j ON j.id = held.id AND j.fence = held.fence AND j.status = 'locked'
 WHERE j.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS bound (id uuid)));

-- name: see_suspensions
-- Whoever paused or stopped them may rely on it: no call of these begins any more.
UPDATE job_queue AS j SET suspension_seen = true
  FROM json_to_recordset(:window) AS held (id uuid, fence bigint)
 WHERE j.id = held.id AND j.fence = held.fence AND j.status = 'locked'
   AND j.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS bound (id uuid)));

-- name: suspensions_unseen
SELECT EXISTS (SELECT 1 FROM job_queue
                WHERE run_id = :run_id AND status = 'locked' AND (paused OR cancelled)
                  AND NOT suspension_seen);

-- name: stop_run
-- A run that has ended by itself just now was not stopped.
UPDATE campaign_runs SET stopped_at = :now
 WHERE id = :run_id AND stopped_at IS NULL AND (finished_at IS NULL) IS TRUE;

-- name: claimed_phase_jobs
SELECT j.id::text, j.tenant_id::text, j.workspace_id::text, r.campaign_id::text, j.run_id::text,
       j.job_type, j.item_count,
       j.attempts, j.max_attempts, j.fence, j.cancelled, j.detail, j.logical_attempt,
       r.plan_version, j.queue_group
  FROM job_queue j JOIN campaign_runs r ON r.id = j.run_id
 WHERE j.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
   AND j.asset_id IS NULL
 ORDER BY j.id;

-- name: exclude_unsettled
-- What is in doubt, and what a verdict has just sent back: neither has an ending yet. And what the
-- provider accepted after somebody had settled it otherwise.
INSERT INTO retry_exclusions (campaign_id, run_id, outbox_id)
SELECT :campaign_id::uuid, :run_id::uuid, id FROM channel_outbox
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
SELECT count(*) FROM retry_exclusions x JOIN channel_outbox o ON o.id = x.outbox_id
 WHERE x.campaign_id = :campaign_id AND x.taken_by IS NULL AND o.doubted_at IS NOT NULL;

-- name: launch_chains
-- Each of these runs, and before it the ones whose remainder it took up, the latest first; of those
-- before, what they came to by the event that ended them.
WITH RECURSIVE chain (last_id, id, retry_of, intended, ended_seq, depth) AS (
  SELECT r.id, r.id, r.retry_of, r.intended, NULL::bigint, 0 FROM campaign_runs r
   WHERE r.id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))
  UNION ALL
  SELECT c.last_id, r.id, r.retry_of, r.intended,
         CASE WHEN r.finished_at IS NOT NULL THEN r.status_seq END, c.depth + 1
    FROM chain c CROSS JOIN LATERAL (SELECT * FROM campaign_runs WHERE id = c.retry_of LIMIT 1) r
   WHERE c.depth < :longest
)
SELECT c.last_id::text, c.id::text, c.intended, e.payload::text
  FROM chain c
  LEFT JOIN LATERAL (SELECT payload FROM run_events
                      WHERE run_id = c.id AND run_seq = c.ended_seq LIMIT 1) e ON true
 ORDER BY c.last_id, c.depth;

-- name: count_left_failed
-- Of what retries left out, by campaign, what has failed since, and no later run took up.
SELECT x.campaign_id::text, count(*) FROM retry_exclusions x JOIN channel_outbox o ON o.id = x.outbox_id
 WHERE x.campaign_id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid))) AND x.taken_by IS NULL AND o.status = 'failed'
 GROUP BY x.campaign_id;

-- name: still_left_out
-- Of these items, those that a retry left out, and no later run took up.
SELECT outbox_id::text FROM retry_exclusions
 WHERE campaign_id = :campaign_id AND taken_by IS NULL
   AND outbox_id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)));

-- name: count_remainder
-- What a run left over, job by job: what failed, and what a stop cancelled; less what this retry
-- leaves out, and with what earlier ones did and it takes up.
SELECT j.id::text, j.asset_id::text, j.first_position, j.last_position, c.items
  FROM job_queue j
 CROSS JOIN LATERAL (
   SELECT count(*) AS items FROM channel_outbox o
    WHERE o.run_id = j.run_id AND o.job_id = j.id
      AND (o.status = 'failed' OR (o.status = 'skipped'
        AND o.reason IN ('cancelled', 'job_dead')))
      AND NOT EXISTS (SELECT 1 FROM retry_exclusions x
                       WHERE x.run_id = :run_id AND x.outbox_id = o.id)) c
 WHERE j.run_id = :previous_run_id AND c.items > 0
UNION ALL
SELECT j.id::text, j.asset_id::text, j.first_position, j.last_position, count(*)
  FROM retry_exclusions x
 CROSS JOIN LATERAL (SELECT o.job_id FROM channel_outbox o WHERE o.id = x.outbox_id LIMIT 1) o
  JOIN job_queue j ON j.id = o.job_id
 WHERE x.taken_by = :run_id
 GROUP BY j.id;

-- name: load_remainder
-- With whether the provider has accepted it after all, in the run before or in one before that.
WITH RECURSIVE lineage (id, run_id, retry_job_id) AS (
  SELECT id, run_id, retry_job_id FROM job_queue WHERE id = :previous_job_id
  UNION
  SELECT j.id, j.run_id, j.retry_job_id
    FROM lineage
   CROSS JOIN LATERAL (SELECT id, run_id, retry_job_id FROM job_queue
                        WHERE id = lineage.retry_job_id LIMIT 1) j
), late AS MATERIALIZED (
  SELECT DISTINCT e.recipient_id
    FROM lineage
   CROSS JOIN LATERAL (
     SELECT recipient_id FROM channel_outbox
      WHERE run_id = lineage.run_id AND job_id = lineage.id
        AND EXISTS (SELECT 1 FROM late_acceptances l WHERE l.outbox_id = channel_outbox.id)
     OFFSET 0) e
)
SELECT m.recipient_id,
       CASE :kind::int WHEN 1 THEN m.email WHEN 2 THEN m.phone WHEN 4 THEN m.push_token END,
       m.attributes, m.invalid, m.duplicate,
       o.recipient_id IN (SELECT recipient_id FROM late)
  FROM channel_outbox o JOIN audience_members m
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
SELECT id::text, last_sequence FROM campaigns
 WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)));

-- name: claim_progress
-- Whose progress was not told for a while; who asks tells it, and nobody else meanwhile.
WITH due AS MATERIALIZED (
  SELECT campaign_id, phase FROM campaign_phases
   WHERE state IN ('in_progress', 'paused') AND state = 'in_progress'
     AND (progress_at IS NULL OR progress_at <= :told_before)
   ORDER BY progress_at NULLS FIRST LIMIT :most FOR UPDATE SKIP LOCKED
)
UPDATE campaign_phases AS p SET progress_at = :now
  FROM due WHERE p.campaign_id = due.campaign_id AND p.phase = due.phase
RETURNING p.campaign_id::text, p.phase, p.run_id::text, p.progress;

-- name: save_progress
UPDATE campaign_phases SET progress = :progress
 WHERE campaign_id = :campaign_id AND phase = :phase;

-- name: prune_progress
DELETE FROM campaign_events
 WHERE campaign_id = :campaign_id AND phase = :phase AND type = 'campaign_progress'
   AND sequence < :before;

-- name: run_by_id_anywhere
SELECT id::text, campaign_id::text, phase, channel, status, intended, scheduled_for,
       retry_of::text, created_at, started_at, finished_at, stopped_at,
       (SELECT q.reason FROM run_requests q
         WHERE q.run_id = campaign_runs.id AND q.status = 'waiting')
  FROM campaign_runs WHERE id = :run_id;

-- name: set_phase_direct
-- Outside the state machine, and therefore seen by the trigger.
UPDATE campaign_phases
   SET state = :state, bypass_caller = :caller, bypass_reason = :reason,
       finished_at = CASE WHEN :ends::boolean THEN :now::timestamptz END, updated_at = :now
 WHERE campaign_id = :campaign_id AND phase = :phase;

-- name: end_bypass
UPDATE campaign_phases
   SET bypass_caller = NULL, bypass_reason = NULL, last_sequence = :sequence, reason = :reason
 WHERE campaign_id = :campaign_id AND phase = :phase;

-- name: disagreeing_phases
-- In flight, while their run has ended, was stopped or never was.
SELECT p.campaign_id::text, p.phase
  FROM campaign_phases p LEFT JOIN campaign_runs r ON r.id = p.run_id
 WHERE p.state IN ('in_progress', 'paused')
   AND (r.id IS NULL OR r.status IN ('completed', 'partial', 'failed') OR r.stopped_at IS NOT NULL)
   AND (p.campaign_id, p.phase) > (:after_campaign_id, :after_phase)
 ORDER BY p.campaign_id, p.phase LIMIT :most;

-- name: runs_left_running
-- Nobody has ended or stopped them, and their phase is not in flight, or has another run.
SELECT r.id::text, r.campaign_id::text, r.phase
  FROM campaign_runs r
  LEFT JOIN campaign_phases p ON p.campaign_id = r.campaign_id AND p.phase = r.phase
 WHERE r.finished_at IS NULL AND r.stopped_at IS NULL AND r.status IN ('queued', 'running')
   AND (p.state IN ('in_progress', 'paused') AND p.run_id = r.id) IS NOT TRUE
   AND r.id > :after
 ORDER BY r.id LIMIT :most;

-- name: running_runs
-- The runs of a campaign that nobody has ended or stopped: one, unless rows were changed by hand.
SELECT id::text, phase FROM campaign_runs
 WHERE campaign_id = :campaign_id AND (finished_at IS NULL) IS TRUE AND stopped_at IS NULL
   AND status IN ('queued', 'running');

-- name: phase_beside_run
-- A phase, the run it names, and what its stream was last told of it.
SELECT c.tenant_id::text, c.workspace_id::text, p.state, p.run_id::text, r.status,
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
SELECT u.id::text, u.campaign_id::text, u.phase,
       (SELECT a.detail FROM campaign_audit_log a WHERE a.id = u.id)
  FROM unread_bypasses u
 WHERE u.id > :after ORDER BY u.id LIMIT :most;

-- name: forget_bypasses
DELETE FROM unread_bypasses
 WHERE id = ANY (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)));

-- name: count_members
SELECT count(*) FROM audience_members WHERE campaign_id = :campaign_id;

-- name: next_position
SELECT coalesce(max(position) + 1, 0) FROM audience_members WHERE campaign_id = :campaign_id;

-- name: members_between
SELECT position, recipient_id, email, phone, push_token, invalid FROM audience_members
 WHERE campaign_id = :campaign_id AND position BETWEEN :first AND :last ORDER BY position;

-- name: count_placed
-- How many of these are in the audience, and at these positions.
SELECT count(*) FROM json_to_recordset(:window) AS item (position int, recipient_id text)
 CROSS JOIN LATERAL (
   SELECT 1 FROM audience_members m
    WHERE m.campaign_id = :campaign_id AND m.position = item.position
      AND m.recipient_id = item.recipient_id LIMIT 1) found;

-- name: import_members
-- A second time changes nothing; an id that is there already is left out.
INSERT INTO audience_members (campaign_id, position, recipient_id, email, phone, push_token,
                              attributes, message_id, invalid)
SELECT :campaign_id, position, recipient_id, email, phone, push_token, attributes::json,
       message_id, invalid
  FROM json_to_recordset(:window)
    AS item (position int, recipient_id text, email text, phone text, push_token text,
             attributes text, message_id text, invalid int)
ON CONFLICT DO NOTHING;

-- name: import_new_members
-- Into an audience that has nobody yet, where an id that comes twice is refused.
COPY audience_members (campaign_id, position, recipient_id, email, phone, push_token, attributes,
                       message_id, invalid) FROM STDIN;

-- name: mark_invalid
UPDATE audience_members SET invalid = invalid | :kind
 WHERE campaign_id = :campaign_id
   AND position = ANY (ARRAY(
         SELECT position FROM json_to_recordset(:window) AS item (position int)));

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
  SELECT u.first_position + record.number::int - 1 AS position, record.value ->> 'id' AS id
    FROM audience_uploads u
   CROSS JOIN json_array_elements(u.records) WITH ORDINALITY AS record (value, number)
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
SELECT id::text, run_id::text, name, media_type, reference, sha256, size_bytes, created_at
  FROM artifacts
 WHERE campaign_id = :campaign_id AND id > :after ORDER BY artifacts.id LIMIT :most;

-- name: artifact_by_id
SELECT id::text, run_id::text, name, media_type, reference, sha256, size_bytes, created_at
  FROM artifacts
 WHERE id = :artifact_id AND tenant_id = :tenant_id AND workspace_id = :workspace_id;

-- name: runs_page
SELECT id::text, campaign_id::text, phase, channel, status, intended, scheduled_for,
       retry_of::text, created_at, started_at, finished_at, stopped_at,
       (SELECT q.reason FROM run_requests q
         WHERE q.run_id = campaign_runs.id AND q.status = 'waiting')
  FROM campaign_runs WHERE campaign_id = :campaign_id AND id < :before
 ORDER BY campaign_runs.id DESC LIMIT :most;

-- name: jobs_page
-- Jobs carry their counts; of one that ended with items in doubt, the rows are counted.
SELECT j.id::text, j.job_type, j.submission_target, j.status, j.outcome, j.attempts, j.item_count,
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
SELECT id::text, created_at, actor, event, run_id::text, job_id::text, outbox_id::text, detail
  FROM campaign_audit_log
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id > :after
 ORDER BY campaign_audit_log.id LIMIT :most;

-- name: suppressions_page
SELECT channel, address, topic, reason, source, evidence, includes_transactional, created_at
  FROM suppressions
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND (channel, address, topic) > (:after_channel, :after_address, :after_topic)
 ORDER BY channel, address, topic LIMIT :most;

-- name: delete_suppressions
DELETE FROM suppressions
 WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
   AND (channel, address) IN (SELECT channel, lower(address) FROM json_to_recordset(:window)
                                AS item (channel text, address text))
   AND (:topic::text IS NULL OR topic = :topic)
RETURNING address;

-- name: count_screened
-- What would become of everybody who gets this message, if it were sent now.
SELECT CASE WHEN :kind::int = 0 THEN NULL
            WHEN address IS NULL OR address = '' THEN 'no_address'
            WHEN invalid & :kind > 0 THEN 'invalid_address'
            WHEN duplicate & :kind > 0 THEN 'duplicate_address'
            WHEN EXISTS (SELECT 1 FROM suppressions s
                          WHERE s.tenant_id = :tenant_id AND s.workspace_id = :workspace_id
                            AND s.channel = :channel AND s.address = lower(member.address)
                            AND (s.topic = '' OR s.topic = :topic::text)
                            AND (s.includes_transactional OR NOT :transactional::boolean))
              THEN 'suppressed' END AS why, count(*)
  FROM (SELECT CASE :kind::int WHEN 1 THEN email WHEN 2 THEN phone WHEN 4 THEN push_token END
                 AS address, invalid, duplicate
          FROM audience_members
         WHERE campaign_id = :campaign_id
           AND (message_id IS NULL OR message_id = :message_id)) member
 GROUP BY 1 ORDER BY 1;
