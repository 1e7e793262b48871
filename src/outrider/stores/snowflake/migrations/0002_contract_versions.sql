-- Which version of the contract an event was written under; one without it is of the first. Snowflake
-- takes no default where it is told IF NOT EXISTS.
ALTER TABLE run_events ADD COLUMN IF NOT EXISTS contract_version varchar;
