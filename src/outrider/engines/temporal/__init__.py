"""Temporal as the engine: work is workflows there, and its jobs are activities that workers do."""
