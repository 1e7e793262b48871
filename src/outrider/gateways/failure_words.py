"""What is told of a connection that failed: why, and never where to.

These words stand on items and targets that every tenant of the target sees; where its gateway
listens is the operator's own business. Whoever runs `outrider check` is told the address.
"""

import os
import re
import socket
import ssl

from outrider.limits.gateways import ERROR_DETAIL_MAX_CHARACTERS

_WITH_ADDRESSES = ("Connect call failed", "Multiple exceptions")
_NAMED_BY_CERTIFICATE = re.compile(r"certificate is not valid for '[^']*'")


def why(error: BaseException) -> str:
    return _words(error)[:ERROR_DETAIL_MAX_CHARACTERS]


def _words(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return _NAMED_BY_CERTIFICATE.sub("certificate is for another name", str(error))
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and error.errno:
        # What asyncio and the system add to it is the address.
        return f"[Errno {error.errno}] {_sentence(error)}"
    return str(error) or type(error).__name__


def _sentence(error: OSError) -> str:
    said = error.strerror or ""
    if not said or said.startswith(_WITH_ADDRESSES):
        return os.strerror(error.errno or 0)
    return said
