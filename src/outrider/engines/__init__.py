"""Engines: what drives runs. `local` is worker loops over the job queue."""
