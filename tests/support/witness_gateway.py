"""An `sms` and `push` gateway that writes down every request and misbehaves as it is told.

It runs in a process of its own, so that a test's load does not disturb it, and it dedupes nothing
unless told to. When a request began is the kernel's word: the moment its bytes reached the socket.
"""

from typing import Literal

from tests.support.witness_process import WitnessProcess

Fault = Literal["none", "reset_unread", "reset_read", "never_answer", "trickle"]
Beyond = Literal["answer_503", "reset", "refuse"]


class WitnessGateway(WitnessProcess):
    """Its `url` is a registry's gatewayUrl; a path behind it tells targets apart in the log."""

    module = "tests.support.witness_gateway_process"

    async def script(
        self,
        *,
        seconds: float | None = None,
        latency_seconds: float = 0.0,
        latency_of: dict[str, float] | None = None,
        throttle_status: Literal[429, 503] | None = None,
        throttle_share: float = 1.0,
        retry_after_seconds: int | None = None,
        fault: Fault = "none",
        trickle_seconds: float = 0.05,
        connections_most: int | None = None,
        connections_beyond: Beyond = "answer_503",
        away: bool = False,
        failing_marker: str | None = None,
        dedupes: bool = False,
    ) -> float:
        """Behave like this, for `seconds` or for good; what is not named is as if healthy.

        `latency_of` is by recipient; `away` refuses connections; `failing_marker` is a text whose
        messages are answered with HTTP 500. Returns when it took effect.
        """
        return await self._tell(
            {
                "seconds": seconds,
                "latencySeconds": latency_seconds,
                "latencyOf": latency_of or {},
                "throttleStatus": throttle_status,
                "throttleShare": throttle_share,
                "retryAfterSeconds": retry_after_seconds,
                "fault": fault,
                "trickleSeconds": trickle_seconds,
                "connectionsMost": connections_most,
                "connectionsBeyond": connections_beyond,
                "away": away,
                "failingMarker": failing_marker,
                "dedupes": dedupes,
            }
        )

    async def heal(self) -> float:
        return await self.script()
