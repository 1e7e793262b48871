"""What is reported of a failed connection: the reason, never the address.

These texts are shown on items and targets to every tenant of the target; the gateway's address is
the operator's own business. `outrider check` does show it.
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
        # What asyncio and the system append is the address.
        return f"[Errno {error.errno}] {_sentence(error)}"
    return str(error) or type(error).__name__


def _sentence(error: OSError) -> str:
    message = error.strerror or ""
    if not message or message.startswith(_WITH_ADDRESSES):
        return os.strerror(error.errno or 0)
    return message
