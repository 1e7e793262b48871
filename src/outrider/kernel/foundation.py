"""What every kernel role is built on: store, clock, ids and limits.

Bootstrap creates it once and passes it to each role as the first argument, so that a constructor
names only the role's own dependencies.
"""

from dataclasses import dataclass

from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock, IdSource
from outrider.ports.store import Store


@dataclass(frozen=True, slots=True)
class Foundation:
    store: Store
    clock: Clock
    ids: IdSource
    limits: Limits
