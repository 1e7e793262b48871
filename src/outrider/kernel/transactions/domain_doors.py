"""The doors of recipient domains: a window of them is changed in one transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from outrider.domain.domain_limits import BACKOFF_MOST_SECONDS, DomainLimits
from outrider.domain.ids import OutboxId, WorkerId
from outrider.domain.sending_hours import Wait
from outrider.domain.targets import (
    Door,
    DoorState,
    Report,
    TargetPolicy,
    admit,
    merged,
    report,
    share_of,
)
from outrider.kernel.transactions.claims import Claim
from outrider.kernel.transactions.jobs import Hold, hold
from outrider.kernel.transactions.targets import DoorKey
from outrider.limits.delivery import DOMAIN_PROBE_SECONDS
from outrider.ports.store import Row, Transaction, ask


class CallsWanted(NamedTuple):
    """How many calls somebody wants to begin, and what is to be reported first."""

    limits: DomainLimits
    calls: int
    reports: Sequence[Report] = ()
    connections: int = 0
    """How many this worker could use, where they are limited."""

    @property
    def is_plain(self) -> bool:
        """Nothing limits it, and nothing is to be reported."""
        limits = self.limits
        is_unlimited = limits.rate_per_second is None and limits.connections is None
        return is_unlimited and not self.reports


class Drawn(NamedTuple):
    granted: int
    wait_until: datetime | None
    epoch: int
    is_probe: bool = False
    is_open: bool = True
    share: int | None = None
    """Of this worker, in the domain's connections; None: it was not asked for."""


def doors_of(key: DoorKey, domains: Sequence[str]) -> Transaction[dict[str, Door]]:
    """Without those that never had a limit or a problem."""
    rows = yield from ask("domain_doors", {"domain": domains}, **key._asdict())
    return {row[0]: _door(row) for row in rows}


def draw(
    key: DoorKey,
    wanted: Mapping[str, CallsWanted],
    worker_id: WorkerId,
    share_lasts: timedelta,
    now: datetime,
) -> Transaction[dict[str, Drawn]]:
    domains = sorted(wanted)
    window: dict[str, Sequence[object]] = {
        "domain": domains,
        "tokens": [float(_policy(wanted[domain].limits).burst) for domain in domains],
    }
    # Everybody locks domains in this order.
    yield from ask("insert_domain_doors", window, **key._asdict(), now=now)
    rows = yield from ask("lock_domain_doors", {"domain": domains}, **key._asdict())
    drawn: dict[str, Drawn] = {}
    changed: dict[str, Door] = {}
    for row in rows:
        domain, before = row[0], _door(row)
        want = wanted[domain]
        policy = _policy(want.limits)
        door = before
        for each in merged(want.reports):
            door = report(door, policy, each, now)
        granted, wait_until, is_probe = 0, door.opens_at, False
        if want.calls:
            # A probe whose worker died is not waited for as long as a provider that defers.
            admission = admit(door, _probing(policy), want.calls, now)
            granted, wait_until = admission.granted, admission.wait_until
            door, is_probe = admission.door, admission.is_probe
        if door != before:
            changed[domain] = door
        drawn[domain] = Drawn(granted, wait_until, door.epoch, is_probe, door.is_open)
    yield from _save(key, changed, now)
    limited = [each for each in domains if wanted[each].connections]
    if limited:
        shares = yield from _shares(key, limited, wanted, worker_id, now + share_lasts, now)
        drawn |= {each: drawn[each]._replace(share=share) for each, share in shares.items()}
    return drawn


def _shares(
    key: DoorKey,
    limited: Sequence[str],
    wanted: Mapping[str, CallsWanted],
    worker_id: WorkerId,
    expires_at: datetime,
    now: datetime,
) -> Transaction[dict[str, int]]:
    """This worker's share of each domain's connections; the domains are locked."""
    rows = yield from ask("live_domain_shares", {"domain": limited}, **key._asdict(), now=now)
    shares: dict[str, int] = {}
    for domain in limited:
        others = [row for row in rows if row[0] == domain and row[1] != worker_id]
        names = sorted([worker_id, *(row[1] for row in others)])
        taken = sum(row[2] for row in others)
        connections, want = wanted[domain].limits.connections, wanted[domain].connections
        assert connections is not None
        place = names.index(worker_id)
        shares[domain] = share_of(connections, want, place, len(names), taken)
    window: dict[str, Sequence[object]] = {"domain": list(shares), "slots": list(shares.values())}
    yield from ask(
        "save_domain_shares", window, **key._asdict(), worker_id=worker_id, expires_at=expires_at
    )
    return shares


def set_aside(
    job: Claim, waits: Mapping[OutboxId, Wait], lease_expires_at: datetime, now: datetime
) -> Transaction[Hold]:
    """They wait for their domains, and their deadlines stay; nothing is written if the job is no
    longer ours."""
    held = yield from hold(job, lease_expires_at, now)
    if held is Hold.OURS:
        # All writers use the same row order, so that they cannot deadlock.
        ids = sorted(waits)
        window: dict[str, Sequence[object]] = {
            "id": ids,
            "until": [waits[each].until for each in ids],
            "waits_for": [waits[each].waits_for.value for each in ids],
        }
        yield from ask("set_aside_items", window, now=now)
    return held


def _save(key: DoorKey, changed: Mapping[str, Door], now: datetime) -> Transaction[None]:
    if not changed:
        return
    doors = changed.values()
    window: dict[str, Sequence[object]] = {
        "domain": list(changed),
        "tokens": [door.tokens for door in doors],
        "refilled_at": [door.refilled_at for door in doors],
        "state": [door.state.value for door in doors],
        "since": [door.since for door in doors],
        "opens_at": [door.opens_at for door in doors],
        "probe_until": [door.probe_until for door in doors],
        "epoch": [door.epoch for door in doors],
        "step": [door.step for door in doors],
        "reason": [door.reason for door in doors],
    }
    yield from ask("save_domain_doors", window, **key._asdict(), now=now)


def _policy(limits: DomainLimits) -> TargetPolicy:
    rate = limits.rate_per_second
    return TargetPolicy(rate, max(1, int(rate or 1)), breaker_seconds=BACKOFF_MOST_SECONDS)


def _probing(policy: TargetPolicy) -> TargetPolicy:
    return TargetPolicy(policy.rate_per_second, policy.burst, breaker_seconds=DOMAIN_PROBE_SECONDS)


def _door(row: Row) -> Door:
    _domain, tokens, refilled_at, state, since, opens_at, probe_until, epoch, step, reason = row
    return Door(
        tokens, refilled_at, DoorState(state), since, opens_at, probe_until, epoch, step,
        reason=reason,
    )  # fmt: skip
