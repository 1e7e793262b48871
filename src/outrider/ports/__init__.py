"""Protocols only: what the kernel requires of the outside world."""
