"""The common base of all wiring: the settings, and what is opened once per process.

Each file beside this one wires a package of the kernel, as a class whose attributes are roles, made
on first use. Its bases are the packages whose roles it uses.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from outrider.domain.submission import GatewayType
from outrider.gateways.directory import GATEWAY_TYPES, Gateways
from outrider.kernel.delivery.right_of_way import RightOfWay
from outrider.kernel.foundation import Foundation
from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock, IdSource
from outrider.ports.renderer import Renderer
from outrider.ports.store import Store
from outrider.settings import Settings


@dataclass
class Wiring:
    settings: Settings
    limits: Limits
    store: Store
    gateways: Gateways
    clock: Clock
    ids: IdSource
    preview_renderer: Renderer
    routing_renderer: Renderer

    @property
    def foundation(self) -> Foundation:
        """Looked up each time: a test may substitute another store or other limits."""
        return Foundation(self.store, self.clock, self.ids, self.limits)

    @cached_property
    def right_of_way(self) -> RightOfWay:
        return RightOfWay(self.clock, self.limits)

    @property
    def gateway_types(self) -> Mapping[str, GatewayType]:
        """What the code knows about each gateway family."""
        return GATEWAY_TYPES
