"""Temporal as the engine: work becomes workflows, and its jobs become activities."""
