"""Sinks of the event bus, one file a kind; each imports its library when it is made."""
