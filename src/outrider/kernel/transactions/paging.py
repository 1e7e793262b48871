"""Where a page begins: before the first id, or after the last one."""

FIRST = "00000000-0000-0000-0000-000000000000"

LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
