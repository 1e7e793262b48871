"""Opt-outs of people who were erased. Whoever imports the address again meets its salted hash."""

from collections.abc import Sequence
from datetime import datetime

from outrider.domain.erasure import SOURCE, Identity, address_hash
from outrider.domain.ids import Scope
from outrider.domain.suppressions import EVERYTHING, Suppression
from outrider.kernel.transactions import people
from outrider.ports.store import Transaction, Window, ask

COLUMNS = ("channel", "hash", "topic", "source", "includes_transactional", "created_at")


def keep(scope: Scope, identity: Identity, new_salt: bytes, now: datetime) -> Transaction[int]:
    """Opt-outs become hashes, and there is one of the erasure itself. Returns how many there were
    before. `new_salt` is for a workspace that has none."""
    yield from ask("put_erasure_salt", workspace_id=scope.workspace_id, salt=new_salt)
    salt = yield from _salt(scope)
    assert salt is not None
    kept: list[tuple[object, ...]] = []
    found: list[Suppression] = []
    for address in identity.addresses:
        mark = address_hash(salt, address.text).hex()
        known = yield from people.suppressions_of(scope, address)
        found += known
        kept += [
            (
                each.channel, mark, each.topic or EVERYTHING, each.source.value,
                each.includes_transactional, each.created_at,
            )
            for each in known
        ]  # fmt: skip
        kept += [
            (channel.value, mark, EVERYTHING, SOURCE, True, now) for channel in address.channels
        ]
    if kept:
        columns = zip(*dict.fromkeys(kept), strict=True)
        window = dict(zip(COLUMNS, map(list, columns), strict=True))
        yield from ask("insert_erased_suppressions", window, workspace_id=scope.workspace_id)
    if found:
        named: Window = {
            "channel": [each.channel for each in found],
            "address": [each.address for each in found],
        }
        yield from ask("delete_suppressions", named, **scope._asdict(), topic=None)
    return len(found)


def relax(scope: Scope, identity: Identity) -> Transaction[None]:
    """The erasure is complete: what they ask for may be sent again, such as a new password."""
    salt = yield from _salt(scope)
    assert salt is not None
    places = [
        (channel.value, address_hash(salt, address.text).hex())
        for address in identity.addresses
        for channel in address.channels
    ]
    if places:
        channels, hashes = zip(*places, strict=True)
        window: Window = {"channel": channels, "hash": hashes}
        yield from ask(
            "relax_erased_suppressions", window, workspace_id=scope.workspace_id, source=SOURCE
        )


def lift(
    scope: Scope, channel: str, addresses: Sequence[str], topic: str | None
) -> Transaction[set[str]]:
    """Allow addresses of erased people again; returns which, in lower case."""
    salt = yield from _salt(scope)
    if salt is None or not addresses:
        return set()
    by_hash = {address_hash(salt, each).hex(): each.lower() for each in addresses}
    window: Window = {"channel": [channel] * len(by_hash), "hash": list(by_hash)}
    rows = yield from ask(
        "lift_erased_suppressions", window, workspace_id=scope.workspace_id, topic=topic
    )
    return {by_hash[row[0]] for row in rows}


def _salt(scope: Scope) -> Transaction[bytes | None]:
    rows = yield from ask("erasure_salt", workspace_id=scope.workspace_id)
    return bytes(rows[0][0]) if rows else None
