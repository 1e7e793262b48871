"""Run logs: their readers, their snapshots, and the budget of their writes."""
