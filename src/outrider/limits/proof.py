"""Proofs that nothing was changed: how often they are made, and how much is read at once."""

AUDIT_CHAIN_SECONDS = 2.0
AUDIT_CHAIN_ENTRIES = 1_000
VERIFY_PAGE_RUNS = 200
VERIFY_PAGE_ROWS = 2_000
FINDINGS_MAX = 1_000
"""Named one by one; beyond that, only counted: whoever rewrote a whole table is found anyway."""
SEAL_LOOK_SECONDS = 2.0
SEAL_HELD_SECONDS = 900.0
"""How long one process seals a run before another may begin; both would make the same seal."""
SEAL_PAGE_ROWS = 500
SEAL_REST_SHARE = 3.0
"""How much longer than a page took the sealer rests after it: sending goes first."""
RESEAL_FIRST_SECONDS = 3_600.0
RESEAL_UNTIL_SECONDS = 60 * 86_400.0
"""Receipts that come later than this after a run's end are not sealed."""
RETIRE_WINDOW_ROWS = 500
RETIRE_WINDOW_PAGES = 100
RETIRE_RUNS_LOOKED_AT = 100
RETIRE_HELD_SECONDS = 900.0
"""How long one process retires a run before another may go on with it; it says so once a minute."""
RETIRE_HOLD_AGAIN_SECONDS = 60.0
RETIRE_REST_SHARE = 1.0
RETIRE_LOOK_SECONDS = 3_600.0
RETIRE_MIN_DAYS = 1
RETIRE_MEMORY_DAYS = 400
SEALS_MAX = 1_000
SALT_BYTES = 32
