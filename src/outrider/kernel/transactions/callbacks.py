"""Callbacks: where those who submit intents want to hear of them, a row an address."""

from collections.abc import Collection
from datetime import datetime
from typing import Final

from outrider.domain.bus_queues import CALLBACKS
from outrider.domain.ids import Scope
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction, Window, ask

ADDRESS_GONE: Final = "http_410"


def endpoints_of(
    scope: Scope, urls: Collection[str], ids: IdSource, now: datetime
) -> Transaction[dict[str, str]]:
    """The endpoints of these addresses, by address. Those that are new are made, and with the first
    of a database the queue in which callbacks wait."""
    window: Window = {"url": sorted(urls)}
    rows = yield from ask("callback_endpoint_ids", window, **scope._asdict())
    missing = sorted(set(urls) - {row[0] for row in rows})
    if missing:
        yield from ask("insert_bus_sinks", {"name": [CALLBACKS]}, now=now)
        new: Window = {"id": ids.batch(len(missing)), "url": missing}
        yield from ask("insert_callback_endpoints", new, **scope._asdict(), now=now)
        rows = yield from ask("callback_endpoint_ids", window, **scope._asdict())
    return {row[0]: row[1] for row in rows}


def disable(endpoint_ids: Collection[str], now: datetime) -> Transaction[None]:
    """They answered that they are gone."""
    gone: Window = {"id": sorted(endpoint_ids)}
    yield from ask("disable_callback_endpoints", gone, why=ADDRESS_GONE, now=now)


def enable(endpoint_ids: Collection[str]) -> Transaction[None]:
    yield from ask("enable_callback_endpoints", {"id": sorted(endpoint_ids)})
