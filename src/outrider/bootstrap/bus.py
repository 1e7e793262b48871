"""The event bus: the sinks that the settings name, callbacks, the history, and a relay for each
queue."""

from functools import cached_property

from outrider.bootstrap.access import AccessRoles
from outrider.domain.bus_queues import CALLBACKS, HISTORY, message_queue
from outrider.domain.cloud_events import data_schema, message_schema
from outrider.domain.errors import InvalidInput
from outrider.engines.process_identity import is_dead, this_worker
from outrider.kernel.bus.bus_keeper import BusKeeper
from outrider.kernel.bus.bus_relay import BusRelay
from outrider.kernel.runs.history_backfiller import HistoryBackfiller
from outrider.kernel.runs.history_mirror import HistoryMirror
from outrider.kernel.runs.history_verifier import HistoryVerifier
from outrider.kernel.runs.run_reader import RunReader
from outrider.ports.bus import Sink
from outrider.ports.history import History
from outrider.secrets.store import load_secrets


class BusRoles(AccessRoles):
    @cached_property
    def bus_keeper(self) -> BusKeeper:
        history = [] if self.settings.history is None else [HISTORY]
        return BusKeeper(self.foundation, [*self.settings.bus, *history])

    @cached_property
    def sinks(self) -> dict[str, Sink]:
        """The sinks in the settings; InvalidInput if one cannot be created."""
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
    def callback_sink(self) -> Sink:
        from outrider.sinks.callbacks import CallbackSink

        return CallbackSink(
            self.callback_secrets.secret_of,
            self.clock,
            allow_private=self.settings.allow_private_callbacks,
        )

    @cached_property
    def bus_relays(self) -> list[BusRelay]:
        """Of each sink one for its run events and one for its messages; and the callbacks'."""
        url = self.settings.public_url
        runs, messages = data_schema(url), message_schema(url)
        relays = [
            self._relay(queue, sink, schema, self.settings.bus[name].max_attempts)
            for name, sink in self.sinks.items()
            for queue, schema in ((name, runs), (message_queue(name), messages))
        ]
        relays.append(self._relay(CALLBACKS, self.callback_sink, messages))
        if self.settings.history is not None:
            relays.append(self._history_relay(self.settings.history))
        return relays

    @cached_property
    def history(self) -> History:
        """InvalidInput where there is none, or it cannot be made."""
        from outrider.sinks.history.directory import make_history

        if self.settings.history is None:
            raise InvalidInput("no history is configured", hint="docs/howto/history.md has how")
        return make_history(self.settings.history, load_secrets())

    @cached_property
    def history_mirror(self) -> HistoryMirror:
        reader = RunReader(self.store, self.limits)
        return HistoryMirror(self.foundation, self.history, reader)

    @cached_property
    def history_backfiller(self) -> HistoryBackfiller:
        return HistoryBackfiller(self.foundation, self.history, self.history_mirror)

    @cached_property
    def history_verifier(self) -> HistoryVerifier:
        return HistoryVerifier(self.foundation, self.history)

    def _history_relay(self, url: str) -> BusRelay:
        from outrider.sinks.history.directory import every_seconds

        return BusRelay(
            self.foundation, HISTORY, self.history_mirror, this_worker(), is_dead,
            every_seconds=every_seconds(url),
        )  # fmt: skip

    def _relay(
        self, queue: str, sink: Sink, schema: str, max_attempts: int | None = None
    ) -> BusRelay:
        return BusRelay(
            self.foundation, queue, sink, this_worker(), is_dead, max_attempts=max_attempts,
            schema=schema,
        )  # fmt: skip
