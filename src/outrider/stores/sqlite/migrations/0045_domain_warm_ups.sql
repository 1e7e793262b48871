-- Warm-up plans of recipient domains and mailbox providers; '' stands for all of a target's messages.
CREATE TABLE warm_up_days_anew (
  submission_target text NOT NULL,
  domain text NOT NULL DEFAULT '',
  day text NOT NULL,
  sent integer NOT NULL,
  updated_at text NOT NULL,
  PRIMARY KEY (submission_target, domain, day)
) STRICT, WITHOUT ROWID;
INSERT INTO warm_up_days_anew (submission_target, day, sent, updated_at)
SELECT submission_target, day, sent, updated_at FROM warm_up_days;
DROP TABLE warm_up_days;
ALTER TABLE warm_up_days_anew RENAME TO warm_up_days;
