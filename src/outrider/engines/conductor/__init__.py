"""The Conductor engine."""
