"""How the simulator misbehaves, as `outrider sandbox` and `PUT /sandbox/faults` set it."""

from typing import Annotated

import msgspec

from outrider.gateways.sandbox_http2 import Http2Faults
from outrider.gateways.sandbox_protocol import Rate

Amount = Annotated[float, msgspec.Meta(ge=0, le=86_400_000)]


class Faults(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """How the simulator misbehaves. The rates are shares of all requests and add up."""

    latency_ms: Amount = 0.0
    fail_rate: Rate = 0.0
    drop_rate: Rate = 0.0
    throttle_rate: Rate = 0.0
    retry_after_seconds: Amount = 1.0
    dedupe: bool = True
    seed: int | None = None
    look_up_fail_rate: Rate = 0.0
    """Of questions about what was received, answered with 500."""
    look_up_delay_ms: Amount = 0.0
    """How late a message is found by them."""
    lose_rate: Rate = 0.0
    """Of requests, cut off before anything was taken."""
    http2: Http2Faults = msgspec.field(default_factory=Http2Faults)
