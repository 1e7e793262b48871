"""Proofs that nothing was changed: how often they are made, and how much is read at once."""

AUDIT_CHAIN_SECONDS = 2.0
AUDIT_CHAIN_ENTRIES = 1_000
VERIFY_PAGE_RUNS = 200
VERIFY_PAGE_ROWS = 2_000
FINDINGS_MAX = 1_000
"""Named one by one; beyond that, only counted: whoever rewrote a whole table is found anyway."""
