-- Whoever takes jobs is told at once of one that is due, or that has a time now. What nobody can
-- take is not told; and what one transaction tells twice, Postgres tells once.
CREATE FUNCTION outrider_tell_work() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('outrider_work', '');
  RETURN NULL;
END
$$;
CREATE TRIGGER job_queue_new_told AFTER INSERT ON job_queue
  FOR EACH ROW WHEN (NEW.status = 'queued' AND NOT NEW.paused AND NEW.run_at IS NOT NULL)
  EXECUTE FUNCTION outrider_tell_work();
CREATE TRIGGER job_queue_told AFTER UPDATE OF status, paused, run_at ON job_queue
  FOR EACH ROW WHEN (NEW.status = 'queued' AND NOT NEW.paused AND NEW.run_at IS NOT NULL
                     AND (OLD.status, OLD.paused, OLD.run_at)
                         IS DISTINCT FROM (NEW.status, NEW.paused, NEW.run_at))
  EXECUTE FUNCTION outrider_tell_work();

-- Whoever routes domain events is told of new ones, in whosever transaction they came.
CREATE FUNCTION outrider_tell_domain_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('outrider_domain_events', '');
  RETURN NULL;
END
$$;
CREATE TRIGGER domain_events_told AFTER INSERT ON domain_events
  FOR EACH STATEMENT EXECUTE FUNCTION outrider_tell_domain_event();
