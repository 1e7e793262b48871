"""All kinds of sinks this code knows, and the making of one from its settings."""

from typing import assert_never

from outrider.domain.sink_urls import SinkKind, sink_url
from outrider.ports.bus import Sink
from outrider.ports.clock import Clock
from outrider.ports.secrets import SecretStore
from outrider.settings import SinkSettings
from outrider.sinks.nats import NatsSink
from outrider.sinks.redis_streams import RedisSink
from outrider.sinks.webhook import WebhookSink


def make_sink(
    name: str, settings: SinkSettings, secrets: SecretStore, clock: Clock, *, allow_private: bool
) -> Sink:
    """Does not connect yet; InvalidInput if a library or a secret is missing."""
    kind = sink_url(settings.url).kind
    match kind:
        case SinkKind.WEBHOOK:
            return WebhookSink(name, settings, secrets, clock, allow_private=allow_private)
        case SinkKind.NATS:
            return NatsSink(name, settings, secrets)
        case SinkKind.REDIS:
            return RedisSink(name, settings, secrets)
        case other:
            assert_never(other)
