"""Exports of providers, with which doubts are settled."""

EXPORT_MAX_BYTES = 128 * 1024 * 1024
EXPORT_NAME_MAX_CHARACTERS = 200
EXPORT_OPTION_MAX_CHARACTERS = 8_192
EXPORT_ROWS_MAX = 1_000_000
EXPORT_COLUMNS_MAX = 200
EXPORT_LINE_MAX_CHARACTERS = 256 * 1024
EXPORT_CELL_MAX_CHARACTERS = 4_096
"""Anything longer is not a reference, ID, address, time or status."""
EXPORT_SAMPLE_ROWS = 50
"""Rows by which format, header and columns are recognised."""
EXPORT_ROWS_SHOWN = 5
EXPORT_MATCHES_SHOWN = 10
EXPORT_PROBLEMS_SHOWN = 20
EXPORT_STATUSES_SHOWN = 100
EXPORT_WINDOW_ROWS = 1_000
EXPORT_DOUBTS_MAX = 50_000
"""Doubts of a target that one export is matched with; the rest waits for the next time."""
EXPORT_CONTENT_ROWS_MAX = 200_000
"""Rows without a known reference that are kept to be matched by recipient and time."""
EXPORT_SLACK_SECONDS = 120.0
"""How far a provider's clock may be from ours where a row is matched by recipient and time."""
EXPORT_NESTED_MAX = 4
"""How deep a field of a JSON export may lie."""
