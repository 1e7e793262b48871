-- Which version of the contract an event was written under. What is there already, and what a process
-- of the version before still writes beside this one, is of the first.
ALTER TABLE run_events ADD COLUMN contract_version text NOT NULL DEFAULT '1.0';
