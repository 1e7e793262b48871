"""Outrider: a durable execution kernel for outbound communication."""

__version__ = "0.1.0"
