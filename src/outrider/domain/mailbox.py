"""A mailbox as people write it, with or without a name: `News <news@example.test>`."""

import re
from dataclasses import dataclass
from email.header import Header
from email.utils import quote
from typing import NamedTuple

from outrider.domain.addresses import ascii_domain
from outrider.domain.errors import InvalidInput
from outrider.domain.texts import breaks_header

NAME_MAX_CHARACTERS = 200

# A sender's name before the @ is ASCII: many who are written to could not answer it otherwise.
_ADDRESS = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9.\u0080-\U0010ffff-]+"
_MAILBOX = re.compile(
    rf"""(?:(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<name>[^<>"]*?))\s*<(?P<inside>{_ADDRESS})>"""
    rf"""|(?P<alone>{_ADDRESS}))\Z"""
)
_ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~ -]+\Z")


@dataclass(frozen=True, slots=True)
class Mailbox:
    name: str
    address: str

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2].lower()

    def header(self, field: str, *, always_in_brackets: bool = False) -> str:
        """As a header's value: a non-ASCII name is encoded per RFC 2047."""
        if not self.name:
            return f"<{self.address}>" if always_in_brackets else self.address
        if not self.name.isascii() or "=?" in self.name:
            name = Header(self.name, "utf-8", header_name=field).encode()
        else:
            name = self.name if _ATOMS.match(self.name) else f'"{quote(self.name)}"'
        return f"{name} <{self.address}>"


def mailbox(text: str) -> Mailbox:
    found = None if breaks_header(text) else _MAILBOX.match(text.strip())
    address = None if found is None else _with_ascii_domain(found["alone"] or found["inside"])
    if found is None or address is None:
        raise InvalidInput(
            f"'{text}' cannot be the sender of an email",
            hint="use news@example.test or News <news@example.test>",
        )
    if found["alone"] is not None:
        return Mailbox("", address)
    quoted = found["quoted"]
    name = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else found["name"].strip()
    if len(name) > NAME_MAX_CHARACTERS:
        raise InvalidInput(f"a sender's name has at most {NAME_MAX_CHARACTERS} characters")
    return Mailbox(name, address)


def _with_ascii_domain(address: str) -> str | None:
    local, _, domain = address.rpartition("@")
    known = domain if domain.isascii() else ascii_domain(domain)
    return None if known is None else f"{local}@{known}"


class MailHead(NamedTuple):
    """Whom a mail is from, and where answers go, where it is not as its target is set up."""

    sender: str | None = None
    reply_to: str | None = None

    def as_document(self) -> dict[str, str]:
        given = {"from": self.sender, "replyTo": self.reply_to}
        return {name: text for name, text in given.items() if text is not None}


USUAL_HEAD = MailHead()
