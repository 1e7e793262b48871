"""Sinks that run events are relayed to."""
