"""Engines: what makes runs move. `local` is worker loops over the job queue."""
