"""The domain shaper: has the calls of a route made, shaped by recipient domain where its target is
set up for that, and as they come where it is not."""

from collections.abc import Callable
from typing import TypeVar

from outrider.domain.ids import Scope, WorkerId
from outrider.domain.states import Channel
from outrider.kernel.delivery.call_sources import Source
from outrider.kernel.delivery.gateway_caller import GatewayCaller
from outrider.kernel.delivery.gateway_routes import Route
from outrider.kernel.delivery.reservations import OpenAttempt
from outrider.kernel.delivery.route_calls import RouteCalls
from outrider.kernel.delivery.route_shapes import RouteShape
from outrider.kernel.delivery.shaped_sources import OpenWindow, ShapedSource, Shaping
from outrider.kernel.delivery.target_gate import TargetGate
from outrider.kernel.delivery.window_outcomes import WindowOutcome
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions.claims import Claim
from outrider.kernel.transactions.targets import DoorKey
from outrider.ports.mail_providers import MailProviders

Element = TypeVar("Element")


class DomainShaper:
    def __init__(
        self,
        foundation: Foundation,
        gate: TargetGate,
        providers: Callable[[], MailProviders],
        worker_id: WorkerId,
    ) -> None:
        self._foundation = foundation
        self._gate = gate
        self._providers = providers
        self._worker_id = worker_id
        self._shapes: dict[DoorKey, RouteShape] = {}

    async def call(
        self,
        caller: GatewayCaller,
        job: Claim,
        route: Route,
        source: Source[Element],
        open_window: OpenWindow[Element],
        shaping: Shaping[Element],
        when_ended: Callable[[OpenAttempt], None] | None = None,
    ) -> WindowOutcome:
        """Open and call what the source has, as fast as the target and the domains accept it."""
        shape = self.of(job.scope, route)
        if shape is None:
            return await RouteCalls(caller, job, route, source, open_window, when_ended).run()
        shaped = ShapedSource(source, shape, shaping)
        calls = RouteCalls(
            caller, job, route, shaped, shaped.opening(open_window), when_ended, shape
        )
        try:
            return await calls.run()
        finally:
            await shaped.leave()

    def of(self, scope: Scope, route: Route) -> RouteShape | None:
        """None: the route does not tell domains apart."""
        shaping = self._gate.policy(route.submission_target).domains
        if shaping is None or route.gateway.type.channel is not Channel.EMAIL:
            return None
        key = DoorKey(route.submission_target, route.gateway_url)
        if route.is_scoped:
            key = key._replace(workspace_id=str(scope.workspace_id))
        if key not in self._shapes:
            self._shapes[key] = RouteShape(
                self._foundation, self._providers(), shaping, key, route.gateway.concurrency,
                self._worker_id,
            )  # fmt: skip
        return self._shapes[key]
