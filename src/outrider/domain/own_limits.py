"""Local resource limits: a shortage on this machine says nothing about a provider or a message."""

import errno

OWN_LIMIT = "own_limit"
"""Nothing was sent, because this machine is out of file handles, memory or disk space."""

_SHORTAGES = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ENOSPC, errno.EDQUOT, errno.EIO}
)
CAUSES_MAX = 8


def is_own_limit(error: BaseException) -> bool:
    """Whether it, or its cause, is a shortage on this machine."""
    found: BaseException | None = error
    for _ in range(CAUSES_MAX):
        if found is None:
            return False
        if isinstance(found, MemoryError):
            return True
        if isinstance(found, OSError) and found.errno in _SHORTAGES:
            return True
        found = found.__cause__ or found.__context__
    return False
