"""Run logs: their readers, their snapshots, and the latency budget of their writes."""
