"""Secrets: what references stand for, for which workspace, and what sessions are signed with."""
