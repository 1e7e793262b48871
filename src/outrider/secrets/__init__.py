"""Secrets: the values of references, for which workspace, and the key that signs sessions."""
