"""The event bus: the sinks that the settings name, and a relay for each of them."""

from functools import cached_property

from outrider.bootstrap.base import Wiring
from outrider.domain.cloud_events import data_schema
from outrider.engines.process_identity import is_dead, this_worker
from outrider.kernel.bus.bus_keeper import BusKeeper
from outrider.kernel.bus.bus_relay import BusRelay
from outrider.ports.bus import Sink
from outrider.secrets.store import load_secrets


class BusRoles(Wiring):
    @cached_property
    def bus_keeper(self) -> BusKeeper:
        return BusKeeper(self.foundation, list(self.settings.bus))

    @cached_property
    def sinks(self) -> dict[str, Sink]:
        """Those that the settings name; InvalidInput where one cannot be made."""
        # 0.2 s with the HTTP library, where no gateway has loaded it already.
        from outrider.sinks.directory import make_sink

        return {
            name: make_sink(
                name, each, load_secrets(), self.clock,
                allow_private=self.settings.allow_private_gateways,
            )
            for name, each in self.settings.bus.items()
        }  # fmt: skip

    @cached_property
    def bus_relays(self) -> list[BusRelay]:
        return [
            BusRelay(
                self.foundation, name, sink, this_worker(), is_dead,
                max_attempts=self.settings.bus[name].max_attempts,
                schema=data_schema(self.settings.public_url),
            )
            for name, sink in self.sinks.items()
        ]  # fmt: skip
