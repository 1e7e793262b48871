"""Address pages: in which audiences an address is, and where, in a few small rows per window.

An index entry for every address would cost an import as much as the recipients themselves. A page
has a short fingerprint of each address of its window instead. Equal fingerprints only say where to
look: whoever finds one compares the address itself.
"""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

from outrider.domain.recipients import Recipient

FINGERPRINT_BYTES = 4
ENTRY_BYTES = 8
"""The fingerprint, and how far behind the window's first position the address is."""
BUCKETS = 32
"""A look-up reads one page of each window: with more pages, it reads less and an import writes
more."""
MIXED_BUCKET = -1
"""For a window so small that one page is enough."""
MIXED_ADDRESSES_MAX = 96

_OFFSET_BITS = 32
_BUCKET_SHIFT = 64 - (BUCKETS - 1).bit_length()


class AddressPage(NamedTuple):
    bucket: int
    entries: bytes


def fingerprint(address_key: str) -> bytes:
    """Of an address in the form that all its spellings share."""
    return crc32(address_key.encode()).to_bytes(FINGERPRINT_BYTES, "big")


def bucket_of(mark: bytes) -> int:
    return mark[0] * BUCKETS >> 8


def address_pages(recipients: Sequence[Recipient | None]) -> list[AddressPage]:
    """Of consecutive positions, some of which may be empty."""
    entries = _entries(recipients)
    if len(entries) <= MIXED_ADDRESSES_MAX:
        return [AddressPage(MIXED_BUCKET, _packed(entries))] if entries else []
    bounds = [bisect_left(entries, bucket << _BUCKET_SHIFT) for bucket in range(BUCKETS)]
    bounds.append(len(entries))
    return [
        AddressPage(bucket, _packed(entries[first:last]))
        for bucket, (first, last) in enumerate(pairwise(bounds))
        if first < last
    ]


def _entries(recipients: Sequence[Recipient | None]) -> list[int]:
    """In order of their fingerprints. Written without a call per address: every recipient passes
    here."""
    placed = [(n, each) for n, each in enumerate(recipients) if each is not None]
    entries = [
        crc32(each.email.lower().encode()) << _OFFSET_BITS | n for n, each in placed if each.email
    ]
    entries += [
        crc32(each.phone.lower().encode()) << _OFFSET_BITS | n for n, each in placed if each.phone
    ]
    entries += [
        crc32(each.push_token.encode()) << _OFFSET_BITS | n for n, each in placed if each.push_token
    ]
    entries.sort()
    return entries


def _packed(entries: list[int]) -> bytes:
    packed = array("Q", entries)
    if sys.byteorder == "little":
        packed.byteswap()
    return packed.tobytes()


def offsets_in(entries: bytes, mark: bytes) -> Iterator[int]:
    """Where this fingerprint is, as positions behind the first one of the page."""
    for start in range(0, len(entries), ENTRY_BYTES):
        if entries.startswith(mark, start):
            yield int.from_bytes(entries[start + FINGERPRINT_BYTES : start + ENTRY_BYTES], "big")
