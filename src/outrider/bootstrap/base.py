"""What the wiring of every room begins with: the settings, and what is opened once in a process.

Each file beside this one wires a room of the kernel, as a class whose attributes are roles, made
when they are first asked for. Its bases are the rooms whose roles it takes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from outrider.domain.submission import GatewayType
from outrider.gateways.directory import GATEWAY_TYPES, Gateways
from outrider.kernel.foundation import Foundation
from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock, IdSource
from outrider.ports.store import Store
from outrider.rendering.pool import RenderPool
from outrider.settings import Settings


@dataclass
class Wiring:
    settings: Settings
    limits: Limits
    store: Store
    gateways: Gateways
    clock: Clock
    ids: IdSource
    preview_renderer: RenderPool
    routing_renderer: RenderPool

    @property
    def foundation(self) -> Foundation:
        """As it is now: a test may put another store or other limits in its place."""
        return Foundation(self.store, self.clock, self.ids, self.limits)

    @property
    def gateway_types(self) -> Mapping[str, GatewayType]:
        """What the code knows of each gateway family."""
        return GATEWAY_TYPES
