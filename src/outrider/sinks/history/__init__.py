"""Histories, one file per kind of database; each imports its library when it is made.

All keep the same tables and the same rule: a window is staged, then merged by (run_id, run_seq), in
one transaction that begins by taking its turn, so that writers never run side by side.
"""
