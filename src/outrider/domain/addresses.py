"""Addresses: raw input goes in; a normalised address or None comes out.

Audiences, events, custom recipients, opt-outs and gateways all use it. Normalising is idempotent
and never yields somebody else's address. Only syntax is checked here; a validation phase checks
that a domain receives mail.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

EMAIL_MAX_CHARACTERS = 254
LOCAL_PART_MAX_BYTES = 64
PUSH_TOKEN_MAX_CHARACTERS = 4_096
DOMAINS_REMEMBERED_MAX = 4_096
"""Caches domains with non-ASCII letters: an audience repeats a few of them many times."""

Normaliser = Callable[[str], str | None]

_ATEXT = r"A-Za-z0-9!#$%&'*+/=?^_`{|}~-"
_DOT_ATOM = rf"[{_ATEXT}]+(?:\.[{_ATEXT}]+)*"


def _domain_part(letters: str) -> str:
    label = rf"[{letters}](?:[{letters}-]{{0,61}}[{letters}])?"
    return rf"{label}(?:\.{label})+\Z"


_NORMAL = re.compile(rf"(?=[^@]{{1,64}}@){_DOT_ATOM}@{_domain_part('a-z0-9')}")
"""Matches an address that is already normalised, at half the cost."""
_DOMAIN = re.compile(_domain_part("a-z0-9"))
_LOCAL = re.compile(rf"[\u0080-\U0010ffff{_ATEXT}]+(?:\.[\u0080-\U0010ffff{_ATEXT}]+)*\Z")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)+)"\Z')
_ESCAPED = re.compile(r"\\(.)")
_NEEDS_BACKSLASH = re.compile(r'(["\\])')

_E164 = re.compile(r"\+[1-9][0-9]{6,14}\Z")
_TRUNK_ZERO = re.compile(r"(\+[1-9][0-9]{0,2})\(0\)")
_PHONE_NOISE = str.maketrans(
    "", "", " .-/\u00a0\u2007\u2009\u202f\u2010\u2011\u2012\u2013\u200e\u202a\u202c"
)
"""What people put between digits, and the invisible marks that address books add when copied."""
_BRACKETS = str.maketrans("", "", "()")
ZERO_BELONGS = frozenset({"39", "225", "241", "242", "378"})
"""Italy, Côte d'Ivoire, Gabon, Congo and San Marino: the zero is dialled from abroad too."""
ZERO_IS_DOMESTIC = frozenset(
    [
        "20",
        "27",
        "31",
        "32",
        "33",
        "40",
        "41",
        "43",
        "44",
        "46",
        "49",
        "60",
        "61",
        "62",
        "63",
        "64",
        "66",
        "81",
        "82",
        "84",
        "86",
        "90",
        "91",
        "92",
        "94",
        "98",
        "212",
        "213",
        "234",
        "254",
        "353",
        "358",
        "359",
        "380",
        "381",
        "385",
        "386",
        "421",
        "886",
        "966",
        "971",
        "972",
    ]
)
"""Country codes after which no number begins with a zero: it is dialled inside the country only."""
_TOKEN = re.compile(r"[\x21-\x7e]+\Z")


def normalise_email(given: str) -> str | None:
    """The address as it is sent to, or None if it is invalid.

    The domain is returned in lower-case ASCII. Strictness is a safety matter: a CR or LF that
    reaches an SMTP command adds a recipient.
    """
    if len(given) <= EMAIL_MAX_CHARACTERS and _NORMAL.match(given):
        return given
    if len(given) > EMAIL_MAX_CHARACTERS:
        return None
    local, at, domain = given.strip(" ").rpartition("@")
    normal_local = _local_part(local) if at else None
    normal_domain = ascii_domain(domain) if normal_local is not None else None
    if normal_local is None or normal_domain is None:
        return None
    address = f"{normal_local}@{normal_domain}"
    return address if len(address.encode()) <= EMAIL_MAX_CHARACTERS else None


def needs_smtputf8(email: str) -> bool:
    """Whether only a mail server with the SMTPUTF8 extension can take a normalised address."""
    return not email.isascii()


def ascii_domain(domain: str) -> str | None:
    """A domain as DNS knows it (UTS 46, non-transitional: `ß` is kept as a distinct letter)."""
    normal = domain.lower() if domain.isascii() else _international(domain)
    return normal if normal is not None and _DOMAIN.match(normal) else None


@lru_cache(DOMAINS_REMEMBERED_MAX)
def _international(domain: str) -> str | None:
    # The standard library only knows the 2003 rules, which turn straße into strasse. Imported here
    # because few addresses need its tables.
    import idna

    try:
        return idna.encode(domain, uts46=True, transitional=False, std3_rules=True).decode()
    except UnicodeError:
        return None


def _local_part(given: str) -> str | None:
    """Without needless quotes. Non-ASCII letters are composed and lower-cased, so that every
    database finds an opt-out however it was typed."""
    quoted = _QUOTED.match(given)
    text = _ESCAPED.sub(r"\1", quoted[1]) if quoted else given
    if not text.isascii():
        text = _composed(text)
    if not all(map(_is_visible, text)):
        return None
    if not _LOCAL.match(text):
        if not quoted:
            return None
        text = '"' + _NEEDS_BACKSLASH.sub(r"\\\1", text) + '"'
    return text if len(text.encode()) <= LOCAL_PART_MAX_BYTES else None


def _composed(text: str) -> str:
    whole = unicodedata.normalize("NFC", text)
    lowered = "".join(each if each.isascii() else each.lower() for each in whole)
    return unicodedata.normalize("NFC", lowered)


def _is_visible(character: str) -> bool:
    """Not a control character, an invisible format character, or a space other than U+0020."""
    return character == " " or unicodedata.category(character)[0] not in "CZ"


def normalise_phone(given: str) -> str | None:
    """E.164, or None. National numbers are refused: guessing a country would call a stranger."""
    compact = given.translate(_PHONE_NOISE)
    if "(0)" in compact:
        # In brackets after the country code it is only dialled domestically. Elsewhere brackets
        # mean nothing.
        found = _TRUNK_ZERO.match(compact)
        if found is None:
            return None
        country, rest = found[1], compact[found.end() :]
        if country[1:] in ZERO_BELONGS:
            country += "0"
        elif rest.startswith("0"):
            return None
        compact = country + rest
    compact = compact.translate(_BRACKETS)
    return _without_domestic_zero(compact) if _E164.match(compact) else None


def _without_domestic_zero(number: str) -> str | None:
    for digits in (2, 3):
        end = 1 + digits
        if number[end] == "0" and number[1:end] in ZERO_IS_DOMESTIC:
            number = number[:end] + number[end + 1 :]
            return number if number[end] != "0" and _E164.match(number) else None
    return number


def normalise_push_token(given: str) -> str | None:
    return given if len(given) <= PUSH_TOKEN_MAX_CHARACTERS and _TOKEN.match(given) else None
