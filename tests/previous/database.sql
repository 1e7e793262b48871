
PRAGMA page_size=4096;

BEGIN TRANSACTION;

DROP TABLE IF EXISTS alerts;
CREATE TABLE alerts (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  code text NOT NULL,
  severity text NOT NULL,
  subject text NOT NULL,
  message text NOT NULL,
  detail text NOT NULL,
  times integer NOT NULL DEFAULT 1,
  raised_at text NOT NULL,
  last_seen_at text NOT NULL,
  resolved_at text
) STRICT;
CREATE INDEX alerts_by_workspace ON alerts (tenant_id, workspace_id, id);
CREATE UNIQUE INDEX alerts_standing ON alerts (code, subject, workspace_id)
  WHERE resolved_at IS NULL;

DROP TABLE IF EXISTS api_keys;
CREATE TABLE api_keys (
  id text PRIMARY KEY,
  tenant_id text NOT NULL REFERENCES tenants (id),
  workspace_id text NOT NULL REFERENCES workspaces (id),
  name text NOT NULL,
  scopes text NOT NULL,
  salt blob NOT NULL,
  digest blob NOT NULL CHECK (length(digest) = 32),
  created_at text NOT NULL,
  revoked_at text
) STRICT;
CREATE INDEX api_keys_by_workspace ON api_keys (tenant_id, workspace_id, id);

DROP TABLE IF EXISTS artifacts;
CREATE TABLE artifacts (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  campaign_id text NOT NULL REFERENCES campaigns (id),
  run_id text NOT NULL REFERENCES campaign_runs (id),
  name text NOT NULL,
  media_type text NOT NULL,
  reference text NOT NULL,
  sha256 text NOT NULL CHECK (length(sha256) = 64),
  size_bytes integer NOT NULL CHECK (size_bytes >= 0),
  created_at text NOT NULL,
  UNIQUE (run_id, name)
) STRICT;
CREATE INDEX artifacts_by_campaign ON artifacts (campaign_id, id);

DROP TABLE IF EXISTS assets;
CREATE TABLE assets (
  id text PRIMARY KEY,
  version integer NOT NULL,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  campaign_id text NOT NULL REFERENCES campaigns (id),
  message_id text NOT NULL,
  channel text NOT NULL,
  submission_target text NOT NULL,
  subject text,
  body text NOT NULL,
  script_version text,
  created_at text NOT NULL,
  UNIQUE (campaign_id, message_id, version)
) STRICT;
INSERT INTO assets VALUES('01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,'00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','01a1ea39-5b74-75c2-bbf8-c018ae6a014f','m','sms','sms.all',NULL,'Hi',NULL,'2026-11-17T15:56:29.940393Z');
CREATE TRIGGER assets_no_update BEFORE UPDATE ON assets
  BEGIN SELECT RAISE(ABORT, 'an asset version never changes'); END;

DROP TABLE IF EXISTS attempt_history;
CREATE TABLE attempt_history (
  outbox_id text NOT NULL,
  attempt integer NOT NULL,
  fence integer NOT NULL,
  opened_at text NOT NULL,
  closed_at text NOT NULL,
  progress text NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('rejected', 'error', 'abandoned', 'disproved')),
  reason text,
  error text,
  PRIMARY KEY (outbox_id, attempt)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER attempt_history_no_delete BEFORE DELETE ON attempt_history
  BEGIN SELECT RAISE(ABORT, 'a closed attempt is never deleted'); END;
CREATE TRIGGER attempt_history_no_update BEFORE UPDATE ON attempt_history
  BEGIN SELECT RAISE(ABORT, 'a closed attempt never changes'); END;

DROP TABLE IF EXISTS audience_members;
CREATE TABLE audience_members (
  campaign_id text NOT NULL REFERENCES campaigns (id),
  position integer NOT NULL,
  recipient_id text NOT NULL,
  email text,
  phone text,
  push_token text,
  attributes text NOT NULL,
  message_id text,
  invalid integer NOT NULL DEFAULT 0,
  duplicate integer NOT NULL DEFAULT 0,
  PRIMARY KEY (campaign_id, position),
  UNIQUE (campaign_id, recipient_id)
) STRICT, WITHOUT ROWID;
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',0,'lead-0','lead0@example.test','+447700000000',NULL,'{"firstName":"Person 0"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',1,'lead-1','lead1@example.test','+447700000001',NULL,'{"firstName":"Person 1"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',2,'lead-2','lead2@example.test','+447700000002',NULL,'{"firstName":"Person 2"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',3,'lead-3','lead3@example.test','+447700000003',NULL,'{"firstName":"Person 3"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',4,'lead-4','lead4@example.test','+447700000004',NULL,'{"firstName":"Person 4"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',5,'lead-5','lead5@example.test','+447700000005',NULL,'{"firstName":"Person 5"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',6,'lead-6','lead6@example.test','+447700000006',NULL,'{"firstName":"Person 6"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',7,'lead-7','lead7@example.test','+447700000007',NULL,'{"firstName":"Person 7"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',8,'lead-8','lead8@example.test','+447700000008',NULL,'{"firstName":"Person 8"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',9,'lead-9','lead9@example.test','+447700000009',NULL,'{"firstName":"Person 9"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',10,'lead-10','lead10@example.test','+447700000010',NULL,'{"firstName":"Person 10"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',11,'lead-11','lead11@example.test','+447700000011',NULL,'{"firstName":"Person 11"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',12,'lead-12','lead12@example.test','+447700000012',NULL,'{"firstName":"Person 12"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',13,'lead-13','lead13@example.test','+447700000013',NULL,'{"firstName":"Person 13"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',14,'lead-14','lead14@example.test','+447700000014',NULL,'{"firstName":"Person 14"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',15,'lead-15','lead15@example.test','+447700000015',NULL,'{"firstName":"Person 15"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',16,'lead-16','lead16@example.test','+447700000016',NULL,'{"firstName":"Person 16"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',17,'lead-17','lead17@example.test','+447700000017',NULL,'{"firstName":"Person 17"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',18,'lead-18','lead18@example.test','+447700000018',NULL,'{"firstName":"Person 18"}',NULL,0,0);
INSERT INTO audience_members VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',19,'lead-19','lead19@example.test','+447700000019',NULL,'{"firstName":"Person 19"}',NULL,0,0);

DROP TABLE IF EXISTS audience_uploads;
CREATE TABLE audience_uploads (
  campaign_id text NOT NULL REFERENCES campaigns (id),
  chunk integer NOT NULL,
  first_position integer NOT NULL,
  record_count integer NOT NULL CHECK (record_count > 0),
  records text NOT NULL,
  PRIMARY KEY (campaign_id, chunk)
) STRICT;

DROP TABLE IF EXISTS campaign_audit_log;
CREATE TABLE campaign_audit_log (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  campaign_id text,
  run_id text,
  job_id text,
  outbox_id text,
  actor text NOT NULL,
  event text NOT NULL,
  detail text NOT NULL,
  created_at text NOT NULL
) STRICT;
INSERT INTO campaign_audit_log VALUES('01a1ea39-5b75-765a-bf84-2d4e11cccca9','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','01a1ea39-5b74-75c2-bbf8-c018ae6a014f',NULL,NULL,NULL,'key:root','campaign.created','{"recipients":20,"messages":1}','2026-11-17T15:56:29.940393Z');
INSERT INTO campaign_audit_log VALUES('01a1ea39-5bb1-7083-8afc-562c781f0480','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','01a1ea39-5b74-75c2-bbf8-c018ae6a014f','01a1ea39-5bae-769c-8666-69631d607edf',NULL,NULL,'key:root','run.deployed','{"phase":"launch","intended":20,"jobs":4}','2026-11-17T15:56:29.999438Z');
INSERT INTO campaign_audit_log VALUES('01a1ea39-5c28-715a-aad8-8b09a402a802','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','01a1ea39-5b74-75c2-bbf8-c018ae6a014f','01a1ea39-5bae-769c-8666-69631d607edf',NULL,NULL,'machine.1/1/1274234','run.started','{}','2026-11-17T15:56:30.115224Z');
CREATE INDEX campaign_audit_log_by_campaign ON campaign_audit_log (campaign_id, id);
CREATE INDEX campaign_audit_log_by_run ON campaign_audit_log (run_id, id);
CREATE INDEX campaign_audit_log_by_workspace ON campaign_audit_log (tenant_id, workspace_id, id);
CREATE INDEX campaign_audit_log_bypasses ON campaign_audit_log (id)
  WHERE event = 'phase.transition_bypassed';
CREATE TRIGGER campaign_audit_log_no_delete BEFORE DELETE ON campaign_audit_log
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER campaign_audit_log_no_update BEFORE UPDATE ON campaign_audit_log
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

DROP TABLE IF EXISTS campaign_events;
CREATE TABLE campaign_events (
  campaign_id text NOT NULL REFERENCES campaigns (id),
  sequence integer NOT NULL,
  type text NOT NULL,
  phase text NOT NULL,
  payload text NOT NULL,
  created_at text NOT NULL,
  PRIMARY KEY (campaign_id, sequence)
) STRICT;
INSERT INTO campaign_events VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f',1,'phase_started','launch','{"runId":"01a1ea39-5bae-769c-8666-69631d607edf","intended":20,"trigger":"start","retryOf":null}','2026-11-17T15:56:29.999438Z');
CREATE TRIGGER campaign_events_no_update BEFORE UPDATE ON campaign_events
  BEGIN SELECT RAISE(ABORT, 'a campaign event never changes'); END;

DROP TABLE IF EXISTS campaign_phases;
CREATE TABLE campaign_phases (
  campaign_id text NOT NULL REFERENCES campaigns (id),
  phase text NOT NULL,
  ordinal integer NOT NULL,
  state text NOT NULL DEFAULT 'not_started'
    CHECK (state IN ('not_started', 'in_progress', 'paused', 'completed', 'failed')),
  run_id text,
  updated_at text NOT NULL, last_sequence integer NOT NULL DEFAULT 0, reason text, started_at text, finished_at text, progress text, progress_at text, bypass_caller text, bypass_reason text,
  PRIMARY KEY (campaign_id, phase),
  UNIQUE (campaign_id, ordinal)
) STRICT;
INSERT INTO campaign_phases VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f','launch',0,'in_progress','01a1ea39-5bae-769c-8666-69631d607edf','2026-11-17T15:56:29.999438Z',1,NULL,'2026-11-17T15:56:29.999438Z',NULL,NULL,NULL,NULL,NULL);
CREATE INDEX campaign_phases_in_flight ON campaign_phases (campaign_id)
  WHERE state IN ('in_progress', 'paused');
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
END;

DROP TABLE IF EXISTS campaign_runs;
CREATE TABLE campaign_runs (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  campaign_id text NOT NULL REFERENCES campaigns (id),
  phase text NOT NULL,
  channel text NOT NULL,
  status text NOT NULL DEFAULT 'queued'
    CHECK (status IN ('queued', 'running', 'completed', 'partial', 'failed')),
  intended integer NOT NULL CHECK (intended >= 0),
  scheduled_for text NOT NULL,
  retry_of text REFERENCES campaign_runs (id),
  created_at text NOT NULL,
  started_at text,
  finished_at text, stopped_at text, last_seq integer NOT NULL DEFAULT 0, status_seq integer NOT NULL DEFAULT 0, snapshot_seq integer NOT NULL DEFAULT 0, signals integer NOT NULL DEFAULT 0, plan_version text NOT NULL DEFAULT '1', approved_at text,
  CHECK ((status IN ('completed', 'partial', 'failed')) = (finished_at IS NOT NULL))
) STRICT;
INSERT INTO campaign_runs VALUES('01a1ea39-5bae-769c-8666-69631d607edf','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','01a1ea39-5b74-75c2-bbf8-c018ae6a014f','launch','sms','running',20,'2026-11-17T15:56:29.999438Z',NULL,'2026-11-17T15:56:29.999438Z','2026-11-17T15:56:30.115224Z',NULL,NULL,6,2,6,0,'bcebac1a2c14b2f4','2026-11-17T15:56:29.999438Z');
CREATE INDEX campaign_runs_by_campaign ON campaign_runs (campaign_id, created_at);
CREATE TRIGGER campaign_runs_follow_their_log BEFORE UPDATE OF status ON campaign_runs
  WHEN OLD.status <> NEW.status AND NOT EXISTS (
    SELECT 1 FROM run_events e
     WHERE e.run_id = NEW.id AND e.run_seq = NEW.status_seq
       AND CASE NEW.status WHEN 'running' THEN e.type = 'RunStarted'
                           WHEN 'completed' THEN e.type IN ('RunCompleted', 'RunCancelled')
                           WHEN 'partial' THEN e.type IN ('RunCompleted', 'RunCancelled')
                           WHEN 'failed' THEN e.type IN ('RunFailed', 'RunCancelled') END)
  BEGIN SELECT RAISE(ABORT, 'a run''s status comes with its event'); END;
CREATE INDEX campaign_runs_unfinished ON campaign_runs (tenant_id, workspace_id)
  WHERE finished_at IS NULL;
CREATE INDEX campaign_runs_unprojected ON campaign_runs (id) WHERE last_seq > snapshot_seq;

DROP TABLE IF EXISTS campaigns;
CREATE TABLE campaigns (
  id text PRIMARY KEY,
  tenant_id text NOT NULL REFERENCES tenants (id),
  workspace_id text NOT NULL REFERENCES workspaces (id),
  name text NOT NULL,
  definition text NOT NULL,
  audience_size integer NOT NULL DEFAULT 0,
  last_sequence integer NOT NULL DEFAULT 0,
  created_at text NOT NULL
) STRICT;
INSERT INTO campaigns VALUES('01a1ea39-5b74-75c2-bbf8-c018ae6a014f','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','Offer','{"name":"Offer","phases":["launch"],"messages":[{"id":"m","channel":"sms","submissionTarget":"sms.all","subject":null,"body":"Hi","scriptVersion":null}],"scheduledFor":null,"batchSize":5,"requireApproval":false}',20,1,'2026-11-17T15:56:29.940393Z');
CREATE INDEX campaigns_by_workspace ON campaigns (tenant_id, workspace_id, id);

DROP TABLE IF EXISTS channel_outbox;
CREATE TABLE channel_outbox (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  origin text NOT NULL CHECK (origin IN ('campaign', 'workflow', 'intent')),
  run_id text,
  job_id text,
  channel text NOT NULL,
  provider text NOT NULL,
  submission_target text NOT NULL,
  contract_id integer NOT NULL,
  recipient_id text NOT NULL,
  recipient_address text,
  asset_id text,
  asset_version integer,
  subject text,
  payload text,
  idempotency_key blob NOT NULL CHECK (length(idempotency_key) = 32),
  status text NOT NULL CHECK (status IN ('queued', 'sent', 'called', 'posted', 'failed', 'skipped')),
  skipped integer NOT NULL DEFAULT 0,
  intent_status text CHECK
    (intent_status IN ('PENDING', 'ACCEPTED', 'REJECTED', 'EXHAUSTED')),
  exhausted_reason text CHECK (exhausted_reason IN ('deadline_exceeded', 'max_attempts', 'one_shot')),
  reason text,
  error text,
  attempts integer NOT NULL DEFAULT 0,
  fallback_contract_id integer,
  attempt_contract_id integer,
  attempt_fence integer,
  attempt_opened_at text,
  attempt_closed_at text,
  progress text CHECK (progress IN ('NOT_SENT', 'SENT_NO_ANSWER', 'ANSWERED')),
  maybe_received integer NOT NULL DEFAULT 0 CHECK (maybe_received IN (0, 1)),
  provider_message_id text,
  next_attempt_at text,
  doubted_at text,
  created_at text NOT NULL,
  updated_at text NOT NULL, domain_event_id text, step_id text, kind text
  CHECK ((kind IS NOT NULL) = (origin = 'workflow')), template text
  CHECK ((template IS NOT NULL) = (origin = 'workflow')), urgent integer NOT NULL DEFAULT 0, due_at text, waits_for text,
  UNIQUE (tenant_id, workspace_id, idempotency_key),
  CONSTRAINT channel_outbox_skipped_status_check CHECK (skipped = (status = 'skipped')),
  CONSTRAINT channel_outbox_judged_when_terminal CHECK
    (status = 'queued' OR intent_status IS NOT 'PENDING'),
  CONSTRAINT channel_outbox_success_was_called CHECK
    (status NOT IN ('sent', 'called', 'posted') OR attempt_closed_at IS NOT NULL),
  CONSTRAINT channel_outbox_terminal_is_closed CHECK
    (status = 'queued' OR attempt_opened_at IS NULL OR attempt_closed_at IS NOT NULL),
  CONSTRAINT channel_outbox_doubt_is_open CHECK
    (doubted_at IS NULL OR (status = 'queued' AND attempt_closed_at IS NULL
                            AND (attempt_opened_at IS NOT NULL OR maybe_received)))
) STRICT;
INSERT INTO channel_outbox VALUES('01a1ea39-5c2b-7f40-929d-a63166bceda3','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','campaign','01a1ea39-5bae-769c-8666-69631d607edf','01a1ea39-5bb0-7211-bb14-3fe256fd5fcc','sms','noop','sms.all',1,'lead-0','+447700000000','01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,NULL,NULL,X'E1604E0AB2543880B46FD3FB55E955EC6F4F464038F4E1961575A811309D5DF6','sent',0,'ACCEPTED',NULL,NULL,NULL,1,NULL,NULL,1,'2026-11-17T15:56:30.123995Z','2026-11-17T15:56:30.125860Z','ANSWERED',0,NULL,NULL,NULL,'2026-11-17T15:56:30.123995Z','2026-11-17T15:56:30.126184Z',NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO channel_outbox VALUES('01a1ea39-5c5e-77fb-8795-7cbf8e9c26a8','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','campaign','01a1ea39-5bae-769c-8666-69631d607edf','01a1ea39-5bb0-7212-9a3b-12bf6bfe586d','sms','noop','sms.all',1,'lead-5','+447700000005','01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,NULL,NULL,X'F8A9224D26AEF21625B67D150C861D835F4D9EA9C08803EC539F84EED7182B67','sent',0,'ACCEPTED',NULL,NULL,NULL,1,NULL,NULL,1,'2026-11-17T15:56:30.174527Z','2026-11-17T15:56:30.176039Z','ANSWERED',0,NULL,NULL,NULL,'2026-11-17T15:56:30.174527Z','2026-11-17T15:56:30.176130Z',NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO channel_outbox VALUES('01a1ea39-5c94-75c5-ab95-34c9bda33877','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','campaign','01a1ea39-5bae-769c-8666-69631d607edf','01a1ea39-5bb0-7213-b4d7-8330714aa414','sms','noop','sms.all',1,'lead-10','+447700000010','01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,NULL,NULL,X'546AF340D36D20AB2885621A70002DE5B5DA4D5A862E95B87840C7E79C47E6B6','sent',0,'ACCEPTED',NULL,NULL,NULL,1,NULL,NULL,1,'2026-11-17T15:56:30.228388Z','2026-11-17T15:56:30.238224Z','ANSWERED',0,NULL,NULL,NULL,'2026-11-17T15:56:30.228388Z','2026-11-17T15:56:30.238320Z',NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO channel_outbox VALUES('01a1ea39-5cc3-7a00-ad8e-46949da2a44c','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','campaign','01a1ea39-5bae-769c-8666-69631d607edf','01a1ea39-5bb0-7214-af3b-649b5bd3cea8','sms','noop','sms.all',1,'lead-15','+447700000015','01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,NULL,NULL,X'639C862C7A5E1D47CEA8873BAED24A989703CF7FFBE56AC04C1F5FAFEFDDE29D','sent',0,'ACCEPTED',NULL,NULL,NULL,1,NULL,NULL,1,'2026-11-17T15:56:30.275661Z','2026-11-17T15:56:30.277342Z','ANSWERED',0,NULL,NULL,NULL,'2026-11-17T15:56:30.275661Z','2026-11-17T15:56:30.277445Z',NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO channel_outbox VALUES('01a1ea39-5cf5-7e36-a880-ad6e273a3236','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','campaign','01a1ea39-5bae-769c-8666-69631d607edf','01a1ea39-5bb0-7212-9a3b-12bf6bfe586d','sms','noop','sms.all',1,'lead-6','+447700000006','01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,NULL,NULL,X'BAA4A93D3749D7EE07298112AC74D5B6229514D7D39A5D7CF18FCF306F5155F3','sent',0,'ACCEPTED',NULL,NULL,NULL,1,NULL,NULL,1,'2026-11-17T15:56:30.325924Z','2026-11-17T15:56:30.336722Z','ANSWERED',0,NULL,NULL,NULL,'2026-11-17T15:56:30.325924Z','2026-11-17T15:56:30.336862Z',NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO channel_outbox VALUES('01a1ea39-5d27-7476-a830-b89030e9ebc1','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','campaign','01a1ea39-5bae-769c-8666-69631d607edf','01a1ea39-5bb0-7211-bb14-3fe256fd5fcc','sms','noop','sms.all',1,'lead-1','+447700000001','01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,NULL,NULL,X'67D6A8F419A7462CFC79412A5BD5368379A7ED4BF72F27CC1CC180D7DE2CB1A5','sent',0,'ACCEPTED',NULL,NULL,NULL,1,NULL,NULL,1,'2026-11-17T15:56:30.375312Z','2026-11-17T15:56:30.376875Z','ANSWERED',0,NULL,NULL,NULL,'2026-11-17T15:56:30.375312Z','2026-11-17T15:56:30.376966Z',NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO channel_outbox VALUES('01a1ea39-5d5c-7e1e-96ed-709c980fb453','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','campaign','01a1ea39-5bae-769c-8666-69631d607edf','01a1ea39-5bb0-7213-b4d7-8330714aa414','sms','noop','sms.all',1,'lead-11','+447700000011','01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,NULL,NULL,X'AE06B97F6062882B8F91218B23DF8AD93BD336112A0AAD5AABCFDA5BA6D88F92','sent',0,'ACCEPTED',NULL,NULL,NULL,1,NULL,NULL,1,'2026-11-17T15:56:30.428916Z','2026-11-17T15:56:30.445432Z','ANSWERED',0,NULL,NULL,NULL,'2026-11-17T15:56:30.428916Z','2026-11-17T15:56:30.445532Z',NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO channel_outbox VALUES('01a1ea39-5d98-7353-b200-72b8519d1aab','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','campaign','01a1ea39-5bae-769c-8666-69631d607edf','01a1ea39-5bb0-7212-9a3b-12bf6bfe586d','sms','noop','sms.all',1,'lead-7','+447700000007','01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,NULL,NULL,X'0E3645BAB1DC3AC061702AB90A703C19DB66E4E35E5419A1A9C0E64C57A51926','sent',0,'ACCEPTED',NULL,NULL,NULL,1,NULL,NULL,1,'2026-11-17T15:56:30.488243Z','2026-11-17T15:56:30.522353Z','ANSWERED',0,NULL,NULL,NULL,'2026-11-17T15:56:30.488243Z','2026-11-17T15:56:30.522470Z',NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO channel_outbox VALUES('01a1ea39-5dd9-71d8-aa26-93fce046981e','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','campaign','01a1ea39-5bae-769c-8666-69631d607edf','01a1ea39-5bb0-7211-bb14-3fe256fd5fcc','sms','noop','sms.all',1,'lead-2','+447700000002','01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,NULL,NULL,X'647DDAB0D1430B38394578197722C6AAFCB4A8CCE0F2F21966A476176CC7F0FA','sent',0,'ACCEPTED',NULL,NULL,NULL,1,NULL,NULL,1,'2026-11-17T15:56:30.553147Z','2026-11-17T15:56:30.572236Z','ANSWERED',0,NULL,NULL,NULL,'2026-11-17T15:56:30.553147Z','2026-11-17T15:56:30.572337Z',NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO channel_outbox VALUES('01a1ea39-5dfa-7901-8776-4024ff472149','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','campaign','01a1ea39-5bae-769c-8666-69631d607edf','01a1ea39-5bb0-7214-af3b-649b5bd3cea8','sms','noop','sms.all',1,'lead-16','+447700000016','01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,NULL,NULL,X'72A0D3BFB4C4031B527036F7EA713A9F24339BAE1262AAAF8BD00A9ADE44907E','sent',0,'ACCEPTED',NULL,NULL,NULL,1,NULL,NULL,1,'2026-11-17T15:56:30.586592Z','2026-11-17T15:56:30.588998Z','ANSWERED',0,NULL,NULL,NULL,'2026-11-17T15:56:30.586592Z','2026-11-17T15:56:30.589084Z',NULL,NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO channel_outbox VALUES('01a1ea39-5e30-7fac-b401-ebcc409e8577','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','campaign','01a1ea39-5bae-769c-8666-69631d607edf','01a1ea39-5bb0-7213-b4d7-8330714aa414','sms','noop','sms.all',1,'lead-12','+447700000012','01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,NULL,NULL,X'82D6D44BCEA5D29B001513B2E937537A973C53982E7BABF1FECA39D5E30A77CA','sent',0,'ACCEPTED',NULL,NULL,NULL,1,NULL,NULL,1,'2026-11-17T15:56:30.641009Z','2026-11-17T15:56:30.645260Z','ANSWERED',0,NULL,NULL,NULL,'2026-11-17T15:56:30.641009Z','2026-11-17T15:56:30.645554Z',NULL,NULL,NULL,NULL,0,NULL,NULL);
CREATE INDEX channel_outbox_by_event ON channel_outbox (domain_event_id, id)
  WHERE domain_event_id IS NOT NULL;
CREATE INDEX channel_outbox_doubted ON channel_outbox (doubted_at) WHERE doubted_at IS NOT NULL;
CREATE INDEX channel_outbox_heard ON channel_outbox
  (tenant_id, workspace_id, channel, lower(recipient_address), attempt_opened_at)
  WHERE origin = 'workflow';
CREATE INDEX channel_outbox_in_lane ON channel_outbox (job_id, next_attempt_at)
  WHERE run_id IS NULL AND next_attempt_at IS NOT NULL;
CREATE TRIGGER channel_outbox_is_kept BEFORE DELETE ON channel_outbox
  BEGIN SELECT RAISE(ABORT, 'a ledger row is never deleted'); END;
CREATE TRIGGER channel_outbox_terminal_is_final BEFORE UPDATE ON channel_outbox
  WHEN OLD.status <> 'queued'
  BEGIN SELECT RAISE(ABORT, 'a terminal ledger row never changes'); END;
CREATE INDEX idx_channel_outbox_run_id ON channel_outbox (run_id, job_id, id);

DROP TABLE IF EXISTS contract_snapshots;
CREATE TABLE contract_snapshots (
  id integer PRIMARY KEY,
  sha256 text NOT NULL UNIQUE CHECK (length(sha256) = 64),
  submission_target text NOT NULL,
  document text NOT NULL,
  created_at text NOT NULL
) STRICT;
INSERT INTO contract_snapshots VALUES(1,'030233e300869ffd6c3a96fb6425c0a8eea67d543c2b3fa4da94c91b40e2d006','sms.all','{"gatewayType":"noop","gatewayUrl":"noop:","maxAttempts":5,"mode":"realtime","policy":"max_attempts","submissionTarget":"sms.all","terminalOutcomes":[]}','2026-11-17T15:56:29.999438Z');

DROP TABLE IF EXISTS digest_entries;
CREATE TABLE digest_entries (
  digest_id text NOT NULL REFERENCES digests (id),
  domain_event_id text NOT NULL REFERENCES domain_events (id),
  variables text NOT NULL,
  created_at text NOT NULL,
  PRIMARY KEY (digest_id, domain_event_id)
) STRICT;
CREATE INDEX digest_entries_by_event ON digest_entries (domain_event_id);

DROP TABLE IF EXISTS digests;
CREATE TABLE digests (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  step_id text NOT NULL,
  audience text NOT NULL,
  recipient_id text NOT NULL,
  address text NOT NULL,
  due_at text NOT NULL,
  entries integer NOT NULL DEFAULT 0,
  sealed_at text,
  closed_at text,
  outbox_id text,
  error text,
  created_at text NOT NULL
) STRICT;
CREATE INDEX digests_due ON digests (due_at, id) WHERE closed_at IS NULL;
CREATE UNIQUE INDEX digests_open ON digests (tenant_id, workspace_id, step_id, address)
  WHERE sealed_at IS NULL;

DROP TABLE IF EXISTS domain_events;
CREATE TABLE domain_events (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  event_id text NOT NULL CHECK (event_id <> ''),
  trigger_name text NOT NULL,
  occurred_at text NOT NULL,
  subject text NOT NULL,
  variables text NOT NULL,
  fingerprint blob NOT NULL CHECK (length(fingerprint) = 32),
  trace_parent text,
  status text NOT NULL DEFAULT 'received' CHECK (status IN ('received', 'routed', 'failed')),
  attempts integer NOT NULL DEFAULT 0,
  route_at text,
  routes text,
  error text,
  created_at text NOT NULL,
  updated_at text NOT NULL,
  UNIQUE (tenant_id, workspace_id, event_id),
  CHECK ((status = 'received') = (route_at IS NOT NULL))
) STRICT;
CREATE INDEX domain_events_by_trigger ON domain_events (tenant_id, workspace_id, trigger_name, id);
CREATE INDEX domain_events_by_workspace ON domain_events (tenant_id, workspace_id, id);
CREATE INDEX domain_events_due ON domain_events (route_at, id) WHERE status = 'received';
CREATE INDEX domain_events_failed ON domain_events (tenant_id, workspace_id, id)
  WHERE status = 'failed';
CREATE TRIGGER domain_events_immutable BEFORE UPDATE ON domain_events
  WHEN OLD.fingerprint IS NOT NEW.fingerprint OR OLD.event_id IS NOT NEW.event_id
    OR OLD.trigger_name IS NOT NEW.trigger_name OR OLD.subject IS NOT NEW.subject
    OR OLD.variables IS NOT NEW.variables
BEGIN SELECT RAISE(ABORT, 'a domain event never changes'); END;

DROP TABLE IF EXISTS event_bus_dead_letters;
CREATE TABLE event_bus_dead_letters (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  sink text NOT NULL,
  run_id text NOT NULL,
  run_seq integer NOT NULL,
  attempts integer NOT NULL,
  error text NOT NULL,
  created_at text NOT NULL,
  redriven_at text,
  FOREIGN KEY (run_id, run_seq) REFERENCES run_events (run_id, run_seq)
) STRICT;
CREATE INDEX event_bus_dead_letters_by_workspace
  ON event_bus_dead_letters (tenant_id, workspace_id, id);
CREATE INDEX event_bus_dead_letters_waiting
  ON event_bus_dead_letters (sink, workspace_id, id) WHERE redriven_at IS NULL;

DROP TABLE IF EXISTS event_bus_outbox;
CREATE TABLE event_bus_outbox (
  sink text NOT NULL,
  run_id text NOT NULL,
  run_seq integer NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  due_at text NOT NULL,
  last_error text,
  created_at text NOT NULL,
  PRIMARY KEY (sink, run_id, run_seq),
  FOREIGN KEY (run_id, run_seq) REFERENCES run_events (run_id, run_seq)
) STRICT, WITHOUT ROWID;

DROP TABLE IF EXISTS event_bus_sinks;
CREATE TABLE event_bus_sinks (
  name text PRIMARY KEY,
  owner text,
  lease_expires_at text,
  published integer NOT NULL DEFAULT 0,
  failed integer NOT NULL DEFAULT 0,
  disabled_at text,
  disabled_why text,
  created_at text NOT NULL
) STRICT;

DROP TABLE IF EXISTS idempotency_records;
CREATE TABLE idempotency_records (
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  key text NOT NULL,
  fingerprint text NOT NULL,
  owner text NOT NULL,
  answer text,
  expires_at text NOT NULL,
  PRIMARY KEY (tenant_id, workspace_id, key)
) STRICT;
CREATE INDEX idempotency_records_expiry ON idempotency_records (expires_at);

DROP TABLE IF EXISTS job_queue;
CREATE TABLE "job_queue" (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  run_id text REFERENCES campaign_runs (id),
  job_type text NOT NULL,
  submission_target text NOT NULL,
  lane integer,
  asset_id text REFERENCES assets (id),
  contract_id integer REFERENCES contract_snapshots (id),
  fallback_contract_id integer REFERENCES contract_snapshots (id),
  first_position integer,
  last_position integer,
  item_count integer NOT NULL CHECK (item_count >= 0),
  status text NOT NULL DEFAULT 'queued'
    CHECK (status IN ('queued', 'locked', 'completed', 'failed', 'dead')),
  outcome text CHECK (outcome IN ('completed', 'partial', 'failed')),
  attempts integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL,
  fence integer NOT NULL DEFAULT 0,
  run_at text,
  locked_by text,
  locked_at text,
  heartbeat_at text,
  lease_expires_at text,
  last_error text,
  sent integer NOT NULL DEFAULT 0,
  failed integer NOT NULL DEFAULT 0,
  skipped integer NOT NULL DEFAULT 0,
  created_at text NOT NULL,
  updated_at text NOT NULL,
  paused integer NOT NULL DEFAULT 0,
  cancelled integer NOT NULL DEFAULT 0,
  retry_job_id text REFERENCES job_queue (id),
  detail text,
  result text, logical_attempt integer NOT NULL DEFAULT 1,
  CHECK ((run_id IS NULL) = (lane IS NOT NULL)),
  CHECK (run_id IS NULL OR item_count > 0),
  CHECK (run_id IS NULL OR (asset_id IS NULL) = (contract_id IS NULL)),
  CHECK ((status = 'locked') = (locked_by IS NOT NULL)),
  CHECK ((status IN ('completed', 'dead')) = (outcome IS NOT NULL)),
  CHECK (status NOT IN ('completed', 'dead') OR item_count = sent + failed + skipped)
) STRICT;
INSERT INTO job_queue VALUES('01a1ea39-5bb0-7211-bb14-3fe256fd5fcc','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','01a1ea39-5bae-769c-8666-69631d607edf','sms_send_batch','sms.all',NULL,'01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,NULL,0,4,5,'queued',NULL,0,5,1,'2026-11-17T15:56:30.576533Z',NULL,NULL,NULL,NULL,NULL,0,0,0,'2026-11-17T15:56:29.999438Z','2026-11-17T15:56:30.576538Z',0,0,NULL,NULL,NULL,1);
INSERT INTO job_queue VALUES('01a1ea39-5bb0-7212-9a3b-12bf6bfe586d','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','01a1ea39-5bae-769c-8666-69631d607edf','sms_send_batch','sms.all',NULL,'01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,NULL,5,9,5,'queued',NULL,0,5,1,'2026-11-17T15:56:30.535245Z',NULL,NULL,NULL,NULL,NULL,0,0,0,'2026-11-17T15:56:29.999438Z','2026-11-17T15:56:30.535250Z',0,0,NULL,NULL,NULL,1);
INSERT INTO job_queue VALUES('01a1ea39-5bb0-7213-b4d7-8330714aa414','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','01a1ea39-5bae-769c-8666-69631d607edf','sms_send_batch','sms.all',NULL,'01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,NULL,10,14,5,'queued',NULL,0,5,1,'2026-11-17T15:56:30.648086Z',NULL,NULL,NULL,NULL,NULL,0,0,0,'2026-11-17T15:56:29.999438Z','2026-11-17T15:56:30.648090Z',0,0,NULL,NULL,NULL,1);
INSERT INTO job_queue VALUES('01a1ea39-5bb0-7214-af3b-649b5bd3cea8','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','01a1ea39-5bae-769c-8666-69631d607edf','sms_send_batch','sms.all',NULL,'01a1ea39-5b74-7b40-93ee-82c0c909efd8',1,NULL,15,19,5,'queued',NULL,0,5,1,'2026-11-17T15:56:30.589921Z',NULL,NULL,NULL,NULL,NULL,0,0,0,'2026-11-17T15:56:29.999438Z','2026-11-17T15:56:30.589924Z',0,0,NULL,NULL,NULL,1);
CREATE INDEX job_queue_by_run ON job_queue (run_id, id);
CREATE INDEX job_queue_due ON job_queue (run_at, id) WHERE status = 'queued' AND paused = 0;
CREATE INDEX job_queue_failed ON job_queue (run_at) WHERE status = 'failed';
CREATE UNIQUE INDEX job_queue_lanes ON job_queue (tenant_id, workspace_id, submission_target, lane)
  WHERE run_id IS NULL;
CREATE INDEX job_queue_locked ON job_queue (lease_expires_at) WHERE status = 'locked';
CREATE INDEX job_queue_unfinished ON job_queue (run_id)
  WHERE status IN ('queued', 'locked', 'failed');
CREATE INDEX job_queue_waiting ON job_queue (run_id, run_at, id)
  WHERE status IN ('queued', 'failed') AND paused = 0;

DROP TABLE IF EXISTS retry_exclusions;
CREATE TABLE retry_exclusions (
  campaign_id text NOT NULL,
  run_id text NOT NULL,
  outbox_id text NOT NULL,
  taken_by text,
  PRIMARY KEY (run_id, outbox_id)
) STRICT;
CREATE INDEX retry_exclusions_left ON retry_exclusions (campaign_id) WHERE taken_by IS NULL;
CREATE INDEX retry_exclusions_taken ON retry_exclusions (taken_by, outbox_id)
  WHERE taken_by IS NOT NULL;

DROP TABLE IF EXISTS run_events;
CREATE TABLE run_events (
  run_id text NOT NULL REFERENCES campaign_runs (id),
  run_seq integer NOT NULL CHECK (run_seq > 0),
  type text NOT NULL CHECK (type <> ''),
  emitter text NOT NULL,
  step_id text,
  logical_attempt integer NOT NULL CHECK (logical_attempt > 0),
  engine_attempt integer,
  plan_version text NOT NULL,
  idempotency_key blob NOT NULL CHECK (length(idempotency_key) = 32),
  signal_id text,
  payload text NOT NULL,
  occurred_at text NOT NULL,
  PRIMARY KEY (run_id, run_seq),
  UNIQUE (run_id, idempotency_key)
) STRICT, WITHOUT ROWID;
INSERT INTO run_events VALUES('01a1ea39-5bae-769c-8666-69631d607edf',1,'RunApproved','planner',NULL,1,NULL,'bcebac1a2c14b2f4',X'1550EA98668DB962260EB583F6EC2D68ADD458410F6D373FB2E42C5521690D2E',NULL,'{"approvedBy":"planner","requestedBy":"key:root"}','2026-11-17T15:56:29.999438Z');
INSERT INTO run_events VALUES('01a1ea39-5bae-769c-8666-69631d607edf',2,'RunStarted','engine',NULL,1,NULL,'bcebac1a2c14b2f4',X'531B35B22293BED6F39BF677F06CC15F8DCF17EB492FF97CA3A4D4596857147E',NULL,'{"engineRunRef":"local/01a1ea39-5bae-769c-8666-69631d607edf","startedBy":"machine.1/1/1274234"}','2026-11-17T15:56:30.115224Z');
INSERT INTO run_events VALUES('01a1ea39-5bae-769c-8666-69631d607edf',3,'StepStarted','activity','01a1ea39-5bb0-7211-bb14-3fe256fd5fcc',1,1,'bcebac1a2c14b2f4',X'C51A23FD31A7AF54FB5A627BF3D6BF2F29A6F6757EC01D34A18D2FA04BDD672D',NULL,'{"worker":"machine.1/1/1274234","items":5}','2026-11-17T15:56:30.121181Z');
INSERT INTO run_events VALUES('01a1ea39-5bae-769c-8666-69631d607edf',4,'StepStarted','activity','01a1ea39-5bb0-7212-9a3b-12bf6bfe586d',1,1,'bcebac1a2c14b2f4',X'4D83BED4DEDDB8AFF33DCD1B4910EE978F8AA46E30BECC8E1A8D6D17C099A589',NULL,'{"worker":"machine.1/1/1274234","items":5}','2026-11-17T15:56:30.121181Z');
INSERT INTO run_events VALUES('01a1ea39-5bae-769c-8666-69631d607edf',5,'StepStarted','activity','01a1ea39-5bb0-7213-b4d7-8330714aa414',1,1,'bcebac1a2c14b2f4',X'05880735C725320C3EBAD224D3C068AEF02ABA10F810F972645BAFF3FE1A58B3',NULL,'{"worker":"machine.1/1/1274234","items":5}','2026-11-17T15:56:30.121181Z');
INSERT INTO run_events VALUES('01a1ea39-5bae-769c-8666-69631d607edf',6,'StepStarted','activity','01a1ea39-5bb0-7214-af3b-649b5bd3cea8',1,1,'bcebac1a2c14b2f4',X'9CEA4DE6BD244B62010D6A100CB6573045E7459208EE1DA1656E6F6E40AA4E18',NULL,'{"worker":"machine.1/1/1274234","items":5}','2026-11-17T15:56:30.121181Z');
CREATE TRIGGER run_events_no_delete BEFORE DELETE ON run_events
  BEGIN SELECT RAISE(ABORT, 'the log of a run is append-only'); END;
CREATE TRIGGER run_events_no_update BEFORE UPDATE ON run_events
  BEGIN SELECT RAISE(ABORT, 'the log of a run is append-only'); END;
CREATE UNIQUE INDEX run_events_signals ON run_events (run_id, signal_id)
  WHERE signal_id IS NOT NULL;
CREATE TRIGGER run_events_told AFTER INSERT ON run_events
  BEGIN
    INSERT INTO event_bus_outbox (sink, run_id, run_seq, due_at, created_at)
    SELECT name, NEW.run_id, NEW.run_seq, NEW.occurred_at, NEW.occurred_at FROM event_bus_sinks;
  END;

DROP TABLE IF EXISTS run_requests;
CREATE TABLE run_requests (
  run_id text PRIMARY KEY REFERENCES campaign_runs (id),
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  project text NOT NULL,
  environment text NOT NULL,
  plan_id text NOT NULL,
  plan_version text NOT NULL,
  run_request_id text NOT NULL,
  idempotency_key blob NOT NULL UNIQUE CHECK (length(idempotency_key) = 32),
  status text NOT NULL CHECK (status IN ('waiting', 'started', 'skipped')),
  needs_approval integer NOT NULL DEFAULT 0,
  approved_by text,
  reason text,
  lease_owner text,
  lease_expires_at text,
  fence integer NOT NULL DEFAULT 0,
  created_at text NOT NULL,
  updated_at text NOT NULL,
  UNIQUE (tenant_id, project, environment, plan_id, plan_version, run_request_id)
) STRICT;
INSERT INTO run_requests VALUES('01a1ea39-5bae-769c-8666-69631d607edf','00000000-0000-7000-8000-000000000001','00000000-0000-7000-8000-000000000002','default','default','01a1ea39-5b74-75c2-bbf8-c018ae6a014f:launch','bcebac1a2c14b2f4','01a1ea39-5bae-769c-8666-69631d607edf',X'0112C43DB77DA9E2F8DB3912EFD5CAD76D4F21C9CA035B50B797186A2859221D','started',0,NULL,NULL,NULL,NULL,0,'2026-11-17T15:56:29.999438Z','2026-11-17T15:56:29.999438Z');
CREATE INDEX run_requests_waiting ON run_requests (tenant_id, workspace_id, run_id)
  WHERE status = 'waiting' AND needs_approval = 0;

DROP TABLE IF EXISTS run_snapshots;
CREATE TABLE run_snapshots (
  run_id text NOT NULL REFERENCES campaign_runs (id),
  last_event_seq integer NOT NULL,
  status text NOT NULL CHECK (status IN
    ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED', 'COMPLETED', 'FAILED', 'CANCELLED')),
  document text NOT NULL,
  projected_at text NOT NULL,
  PRIMARY KEY (run_id, last_event_seq)
) STRICT, WITHOUT ROWID;
INSERT INTO run_snapshots VALUES('01a1ea39-5bae-769c-8666-69631d607edf',6,'RUNNING','{"runId":"01a1ea39-5bae-769c-8666-69631d607edf","status":"RUNNING","lastEventSeq":6,"steps":[{"stepId":"01a1ea39-5bb0-7211-bb14-3fe256fd5fcc","status":"RUNNING","logicalAttemptId":"1","artifacts":[],"engineAttemptId":"1","startedAt":"2026-11-17T15:56:30.121181Z"},{"stepId":"01a1ea39-5bb0-7212-9a3b-12bf6bfe586d","status":"RUNNING","logicalAttemptId":"1","artifacts":[],"engineAttemptId":"1","startedAt":"2026-11-17T15:56:30.121181Z"},{"stepId":"01a1ea39-5bb0-7213-b4d7-8330714aa414","status":"RUNNING","logicalAttemptId":"1","artifacts":[],"engineAttemptId":"1","startedAt":"2026-11-17T15:56:30.121181Z"},{"stepId":"01a1ea39-5bb0-7214-af3b-649b5bd3cea8","status":"RUNNING","logicalAttemptId":"1","artifacts":[],"engineAttemptId":"1","startedAt":"2026-11-17T15:56:30.121181Z"}],"artifacts":[],"failedSteps":0,"engineRunRef":"local/01a1ea39-5bae-769c-8666-69631d607edf","startedAt":"2026-11-17T15:56:30.115224Z"}','2026-11-17T15:56:30.445097Z');
CREATE TRIGGER run_snapshots_no_update BEFORE UPDATE ON run_snapshots
  BEGIN SELECT RAISE(ABORT, 'a snapshot never changes'); END;

DROP TABLE IF EXISTS schema_migrations;
CREATE TABLE schema_migrations (name text PRIMARY KEY, sha256 text NOT NULL, applied_at text NOT NULL) STRICT;
INSERT INTO schema_migrations VALUES('0001_spine','7d0cc47386a10e353be91e46b3112257f1c1d052055a5eab81fae4866ebb6176','2026-11-17T15:56:28.159745Z');
INSERT INTO schema_migrations VALUES('0002_control_plane','6e0cc3b7f982787e29bb129955174a48667d1cef6a82c89ad1f3bea8394976ec','2026-11-17T15:56:28.174436Z');
INSERT INTO schema_migrations VALUES('0003_run_log','a53732128fd52b36d68c313788dab5bfc4fdeac3f15f016e2c292547a89be0dd','2026-11-17T15:56:28.184523Z');
INSERT INTO schema_migrations VALUES('0004_workflows','c75f7e0ad187cafa8a32f94b0e5cfa88c10c3a679fa2123780b4b9072e110faa','2026-11-17T15:56:28.204977Z');
INSERT INTO schema_migrations VALUES('0005_engines','0245f78f56a5a47aa7be7076d54438b4f429a470fd1ed27eeff926bded52d2f7','2026-11-17T15:56:28.205088Z');
INSERT INTO schema_migrations VALUES('0006_pace','c2fa6954e96d1278ef60aa73095f0bd5b9f72300a9f601243382bb9158ec1dbb','2026-11-17T15:56:28.205102Z');
INSERT INTO schema_migrations VALUES('0007_announcements','55862fb626aafb88bd6f2918e2504b1a019b59d5ed044b39713660e8541b29fe','2026-11-17T15:56:28.205110Z');

DROP TABLE IF EXISTS signing_keys;
CREATE TABLE signing_keys (
  name text PRIMARY KEY,
  secret blob NOT NULL CHECK (length(secret) = 32),
  created_at text NOT NULL
) STRICT;

DROP TABLE IF EXISTS suppressions;
CREATE TABLE suppressions (
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  channel text NOT NULL,
  address text NOT NULL,
  reason text NOT NULL,
  created_at text NOT NULL,
  PRIMARY KEY (tenant_id, workspace_id, channel, address)
) STRICT, WITHOUT ROWID;

DROP TABLE IF EXISTS target_states;
CREATE TABLE target_states (
  submission_target text PRIMARY KEY,
  tokens real NOT NULL,
  refilled_at text NOT NULL,
  resume_at text,
  failures integer NOT NULL DEFAULT 0,
  breaker text NOT NULL DEFAULT 'closed' CHECK (breaker IN ('closed', 'open', 'probing')),
  probe_at text,
  updated_at text NOT NULL
) STRICT;
INSERT INTO target_states VALUES('sms.all',0.0,'2026-11-17T15:56:30.639271Z',NULL,0,'closed',NULL,'2026-11-17T15:56:30.639271Z');

DROP TABLE IF EXISTS tenants;
CREATE TABLE tenants (
  id text PRIMARY KEY,
  name text NOT NULL,
  created_at text NOT NULL
) STRICT;
INSERT INTO tenants VALUES('00000000-0000-7000-8000-000000000001','default','2026-01-01T00:00:00.000000Z');

DROP TABLE IF EXISTS workflow_policies;
CREATE TABLE workflow_policies (
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  document text NOT NULL,
  updated_at text NOT NULL,
  PRIMARY KEY (tenant_id, workspace_id)
) STRICT;

DROP TABLE IF EXISTS workflow_rules;
CREATE TABLE workflow_rules (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  trigger_name text NOT NULL,
  channel text NOT NULL
    CHECK (channel IN ('email', 'sms', 'push', 'whatsapp', 'voice', 'social')),
  audience text NOT NULL,
  enabled integer NOT NULL,
  urgent integer NOT NULL,
  created_at text NOT NULL,
  updated_at text NOT NULL,
  UNIQUE (tenant_id, workspace_id, trigger_name, channel, audience)
) STRICT;

DROP TABLE IF EXISTS workflow_steps;
CREATE TABLE workflow_steps (
  id text PRIMARY KEY,
  tenant_id text NOT NULL,
  workspace_id text NOT NULL,
  rule_id text NOT NULL REFERENCES workflow_rules (id) ON DELETE CASCADE,
  step_order integer NOT NULL,
  enabled integer NOT NULL,
  channel text NOT NULL
    CHECK (channel IN ('email', 'sms', 'push', 'whatsapp', 'voice', 'social')),
  submission_target text,
  subject text,
  body text NOT NULL,
  timing text NOT NULL,
  recipient_config text NOT NULL,
  digest_seconds integer CHECK (digest_seconds > 0),
  created_at text NOT NULL,
  updated_at text NOT NULL
) STRICT;
CREATE INDEX workflow_steps_by_workspace ON workflow_steps (tenant_id, workspace_id, id);
CREATE INDEX workflow_steps_in_order ON workflow_steps (rule_id, step_order, created_at, id);

DROP TABLE IF EXISTS workspaces;
CREATE TABLE workspaces (
  id text PRIMARY KEY,
  tenant_id text NOT NULL REFERENCES tenants (id),
  project text NOT NULL,
  environment text NOT NULL,
  created_at text NOT NULL,
  UNIQUE (tenant_id, project, environment)
) STRICT;
INSERT INTO workspaces VALUES('00000000-0000-7000-8000-000000000002','00000000-0000-7000-8000-000000000001','default','default','2026-01-01T00:00:00.000000Z');

DROP VIEW IF EXISTS submission_attempts;
CREATE VIEW submission_attempts AS
  SELECT outbox_id, attempt, fence, opened_at, closed_at, progress, outcome, reason, error,
         NULL AS provider_message_id
    FROM attempt_history
  UNION ALL
  SELECT id, attempts, attempt_fence, attempt_opened_at, attempt_closed_at, progress,
         CASE WHEN attempt_closed_at IS NULL THEN NULL
              WHEN status IN ('sent', 'called', 'posted') THEN 'accepted'
              WHEN progress = 'ANSWERED' THEN 'rejected' ELSE 'error' END,
         reason, error, provider_message_id
    FROM channel_outbox
   WHERE attempt_opened_at IS NOT NULL;
DROP VIEW IF EXISTS submission_intents;
CREATE VIEW submission_intents AS
  SELECT tenant_id, workspace_id, recipient_id AS intent_id, submission_target, payload,
         intent_status AS status,
         CASE intent_status WHEN 'ACCEPTED' THEN 'accepted' WHEN 'REJECTED' THEN reason END
           AS final_outcome,
         exhausted_reason, attempts, contract_id, id AS outbox_id, created_at, updated_at
    FROM channel_outbox
   WHERE origin = 'intent';
DROP VIEW IF EXISTS notification_outbox;
CREATE VIEW notification_outbox AS
  SELECT id, tenant_id, workspace_id, kind, template, payload, recipient_address AS recipient,
         CASE WHEN status IN ('sent', 'called', 'posted') THEN 'succeeded'
              WHEN status IN ('failed', 'skipped') THEN 'failed'
              WHEN doubted_at IS NOT NULL OR attempt_opened_at IS NOT NULL THEN 'processing'
              ELSE 'pending' END AS status,
         attempts, coalesce(next_attempt_at, due_at, created_at) AS run_at,
         CASE WHEN status NOT IN ('sent', 'called', 'posted')
              THEN reason || CASE WHEN error IS NULL THEN '' ELSE ': ' || error END END AS last_error,
         waits_for, domain_event_id, step_id, created_at, updated_at
    FROM channel_outbox
   WHERE origin = 'workflow';

COMMIT TRANSACTION;
