"""The system's certificate authorities, for providers without their own CA.

Reading them takes some twenty milliseconds, so all gateways of a process share what was read, until
the files change.
"""

import os
import ssl
from contextlib import suppress
from functools import lru_cache


def system_trust() -> ssl.SSLContext:
    return _read(_version())


@lru_cache(maxsize=1)
def _read(_version: tuple[str, ...]) -> ssl.SSLContext:
    return ssl.create_default_context()


def _version() -> tuple[str, ...]:
    """Where they are, as the environment may say, and when they were changed."""
    paths = ssl.get_default_verify_paths()
    found = []
    for path in (paths.cafile, paths.capath):
        if path is not None:
            with suppress(OSError):
                found.append(f"{path} {os.stat(path).st_mtime_ns}")
    return tuple(found)
