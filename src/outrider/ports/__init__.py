"""Protocols only: what the kernel asks of the outside world."""
