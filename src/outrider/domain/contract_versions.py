"""The contract version carried by everything that outlives its process or leaves it.

Run events, snapshots, CloudEvents and the spool carry it; without one, 1.0 is assumed. A reader
accepts every minor version of its own major version and ignores what it does not know.
VERSIONING.md says how long older versions are read.
"""

from typing import Final

CONTRACT_VERSION: Final = "1.1"
UNVERSIONED: Final = "1.0"
"""Assumed where no version is written."""

SNAPSHOT_FORMAT: Final = 2
"""For stored snapshots only. It grows when an older one cannot be folded further; 1 had no
number."""
SNAPSHOT_FORMATS_READ: Final = frozenset({1, SNAPSHOT_FORMAT})


def is_readable(version: str) -> bool:
    """Whether data of this version has the shape that this code knows."""
    return major(version) == major(CONTRACT_VERSION)


def major(version: str) -> str:
    return version.partition(".")[0]


def is_later(version: str) -> bool:
    """Whether it is a later minor version than this code's: it may contain unknown words."""
    return _minor(version) > _minor(CONTRACT_VERSION)


def _minor(version: str) -> int:
    """-1 if it is not a version."""
    minor = version.partition(".")[2]
    return int(minor) if minor.isdecimal() else -1
