"""A text as a part of an e-mail: readable as it is where that is safe, and otherwise encoded.

What arrives is what was written, to the byte, but for line ends: those of mail are CR LF. Nothing
on the way may change it, because the body is signed (DKIM).
"""

import binascii
import re
from typing import Final

from outrider.gateways.mail_parts import Part, base64_lines

LINE_MAX_BYTES: Final = 998
"""RFC 5322, 2.1.1, without the line end."""
BASE64_SHARE: Final = 6
"""With more than one byte in so many outside ASCII, quoted-printable is longer than base64."""

_LINE_ENDS = re.compile(rb"\r\n|\r|\n")
_UNSAFE = re.compile(rb"[^\t\r\n -~]|=_|^From |[ \t]\r?$", re.MULTILINE)
"""Control characters, what a boundary is recognised by, what mailbox files change, and spaces that
servers strip."""
_FROM = re.compile(rb"^From |^\.\r?$", re.MULTILINE)
_NOT_ASCII = bytes(range(128, 256))


def mail_lines(text: bytes) -> bytes:
    return _LINE_ENDS.sub(b"\r\n", text)


def text_part(text: str, kind: str) -> Part:
    """`text/plain` or `text/html`; UnicodeError if it is not text."""
    content = mail_lines(text.encode())
    encoding = _encoding(content)
    match encoding:
        case "quoted-printable":
            content = quoted_printable(content)
        case "base64":
            content = base64_lines(content)
    headers = f"Content-Type: text/{kind}; charset=utf-8\nContent-Transfer-Encoding: {encoding}\n"
    return Part(headers, content)


def _encoding(content: bytes) -> str:
    longest = max(map(len, content.split(b"\r\n")))
    if longest <= LINE_MAX_BYTES and _UNSAFE.search(content) is None:
        return "7bit"
    foreign = len(content) - len(content.translate(None, _NOT_ASCII))
    is_foreign = foreign * BASE64_SHARE > len(content)
    # Quoted-printable leaves the beginning of such lines as it is.
    return "base64" if is_foreign or _FROM.search(content) else "quoted-printable"


def quoted_printable(content: bytes) -> bytes:
    """Its soft line breaks follow the first line end it finds, so it is given one."""
    encoded = binascii.b2a_qp(content + b"\r\n", istext=True)
    return encoded.removesuffix(b"\r\n")
