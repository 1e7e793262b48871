"""What every role of the kernel stands on: where things are kept, what time it is, ids and limits.

It is made once by bootstrap and handed to each role as its first argument, so that a constructor
names only what is the role's own.
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
