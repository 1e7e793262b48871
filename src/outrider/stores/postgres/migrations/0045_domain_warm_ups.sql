-- Warm-up plans of recipient domains and mailbox providers; '' stands for all of a target's messages.
ALTER TABLE warm_up_days ADD COLUMN domain text NOT NULL DEFAULT '';
ALTER TABLE warm_up_days DROP CONSTRAINT warm_up_days_pkey;
ALTER TABLE warm_up_days ADD PRIMARY KEY (submission_target, domain, day);
