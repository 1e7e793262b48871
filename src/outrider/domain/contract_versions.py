"""The version of the contract in everything that outlives its process or leaves it.

Run events, snapshots, CloudEvents and the spool carry it; what carries none is of version 1.0. A
reader takes every minor version of its own major one, and leaves alone what it does not know.
VERSIONING.md says how long older versions are read.
"""

from typing import Final

CONTRACT_VERSION: Final = "1.1"
UNVERSIONED: Final = "1.0"
"""What is meant where no version is written."""

SNAPSHOT_FORMAT: Final = 2
"""Of stored snapshots only. It grows when a stored one could not be folded on; 1 had no number."""
SNAPSHOT_FORMATS_READ: Final = frozenset({1, SNAPSHOT_FORMAT})


def is_readable(version: str) -> bool:
    """Whether what has this version has the shape that this code knows."""
    return major(version) == major(CONTRACT_VERSION)


def major(version: str) -> str:
    return version.partition(".")[0]


def is_later(version: str) -> bool:
    """Whether it is a minor version after this code's own: it may have words that are new."""
    return _minor(version) > _minor(CONTRACT_VERSION)


def _minor(version: str) -> int:
    """-1 of what is no version."""
    minor = version.partition(".")[2]
    return int(minor) if minor.isdecimal() else -1
