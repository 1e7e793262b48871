-- What an engine asks for: the jobs of one run, or the lanes, that wait to be taken.
CREATE INDEX job_queue_waiting ON job_queue (run_id, run_at, id)
  WHERE status IN ('queued', 'failed') AND paused = 0;
