"""A foundation for a role that a test makes itself: over its store, with what it does not care
about left as it usually is."""

from outrider.kernel.foundation import Foundation
from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock, IdSource
from outrider.ports.store import Store
from outrider.system import SystemClock, SystemIds


def foundation(
    store: Store,
    *,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    limits: Limits | None = None,
) -> Foundation:
    return Foundation(store, clock or SystemClock(), ids or SystemIds(), limits or Limits())
