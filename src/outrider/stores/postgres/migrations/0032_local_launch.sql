-- A launch at local time: the time on the wall, and the zone of recipients whose own is not known.
ALTER TABLE campaign_runs ADD COLUMN local_launch text;
