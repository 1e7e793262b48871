"""Kills at random over every family's simulator, and the figures of what became of the doubts."""
