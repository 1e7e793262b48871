"""The system's certificate authorities, for providers without their own CA.

Reading them takes some twenty milliseconds, so all gateways of a process share what was read, until
the files change.
"""

import os
import ssl
from contextlib import suppress
from functools import lru_cache

from outrider.domain.errors import InvalidInput


def system_trust(protocol: str | None = None) -> ssl.SSLContext:
    """For a protocol that is named in the handshake; HTTP/1.1 need not be."""
    return _read(_version(), protocol)


@lru_cache(maxsize=2)
def _read(_version: tuple[str, ...], protocol: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if protocol is not None:
        context.set_alpn_protocols([protocol])
    return context


def trust_of(ca_file: str | None, protocol: str | None = None) -> ssl.SSLContext:
    """A private CA replaces the system's, since only it should vouch for this server.

    InvalidInput: the file cannot be used.
    """
    if ca_file is None:
        return system_trust(protocol)
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise InvalidInput(f"the caFile {ca_file} cannot be used: {error}") from error
    if protocol is not None:
        context.set_alpn_protocols([protocol])
    return context


def _version() -> tuple[str, ...]:
    """Where they are, as the environment may say, and when they were changed."""
    paths = ssl.get_default_verify_paths()
    found = []
    for path in (paths.cafile, paths.capath):
        if path is not None:
            with suppress(OSError):
                found.append(f"{path} {os.stat(path).st_mtime_ns}")
    return tuple(found)
