"""Callbacks: one signed POST per event, to the address that its intent was submitted with. All
addresses share a limited number of calls, and each address may use only some of them. After a
failed call, an address is not called again in this window, so a dead address costs the others one
timeout.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog
from yarl import URL

from outrider.domain.call_results import AttemptError
from outrider.domain.cloud_events import CONTENT_TYPE
from outrider.domain.ids import Scope
from outrider.domain.webhook_signatures import signed_headers
from outrider.gateways.http import ReceivedAnswer
from outrider.gateways.http_client import HttpClient
from outrider.limits.bus import (
    CALLBACK_CONCURRENCY,
    CALLBACK_TIMEOUT_SECONDS,
    CALLBACKS_AT_ONE_ADDRESS,
    WEBHOOK_ANSWER_MAX_BYTES,
)
from outrider.limits.gateways import HTTP_CONNECT_SECONDS
from outrider.ports.bus import DELIVERED, HELD, BusDelivery, BusEvent, BusVerdict
from outrider.ports.clock import Clock

log = structlog.get_logger()

GONE = 410
SWITCHED_OFF = BusDelivery(BusVerdict.ADDRESS_GONE, "endpoint_gone")


class CallbackSink:
    def __init__(
        self,
        secret_of: Callable[[Scope], Awaitable[bytes]],
        clock: Clock,
        *,
        allow_private: bool,
        timeout_seconds: float = CALLBACK_TIMEOUT_SECONDS,
    ) -> None:
        self._secret_of = secret_of
        self._clock = clock
        self._client = HttpClient(
            timeout_seconds=timeout_seconds,
            connect_seconds=min(HTTP_CONNECT_SECONDS, timeout_seconds),
            connections=CALLBACK_CONCURRENCY,
            answer_max_bytes=WEBHOOK_ANSWER_MAX_BYTES,
            allow_private=allow_private,
        )

    async def publish(self, window: Sequence[BusEvent]) -> Sequence[BusDelivery]:
        verdicts = [HELD] * len(window)
        free = asyncio.Semaphore(CALLBACK_CONCURRENCY)
        addresses: dict[str, list[int]] = {}
        for place, event in enumerate(window):
            addresses.setdefault(event.run_id, []).append(place)

        async def tell_address(places: Sequence[int]) -> None:
            """Items side by side, the events of each in their order."""
            items: dict[str | None, list[int]] = {}
            for place in places:
                items.setdefault(window[place].outbox_id, []).append(place)
            waiting = iter(items.values())
            failed = False

            async def work() -> None:
                nonlocal failed
                for of_item in waiting:
                    for place in of_item:
                        if failed:
                            return
                        async with free:
                            verdicts[place] = await self._tell(window[place])
                        if verdicts[place] not in (DELIVERED, SWITCHED_OFF):
                            failed = True

            async with asyncio.TaskGroup() as group:
                for _ in range(min(CALLBACKS_AT_ONE_ADDRESS, len(items))):
                    group.create_task(work())

        async with asyncio.TaskGroup() as group:
            for places in addresses.values():
                group.create_task(tell_address(places))
        return verdicts

    async def close(self) -> None:
        await self._client.close()

    async def _tell(self, event: BusEvent) -> BusDelivery:
        address, scope = event.address, event.scope
        assert scope is not None, "a message event has its workspace"
        if address is None or address.disabled:
            return SWITCHED_OFF
        now = int(self._clock.now().timestamp())
        headers = signed_headers([await self._secret_of(scope)], event.id, now, event.content)
        answer = await self._client.post(
            URL(address.url), event.content, CONTENT_TYPE, headers=headers
        )
        if isinstance(answer, AttemptError):
            # The detail names hosts; what is kept with the event does not.
            log.warning("callback_failed", error=answer.code, detail=answer.detail)
            return BusDelivery(BusVerdict.FAILED, answer.code)
        assert isinstance(answer, ReceivedAnswer), "nobody withholds an event"
        if 200 <= answer.status < 300:
            return DELIVERED
        error = f"http_{answer.status}"
        if answer.status == GONE:
            return BusDelivery(BusVerdict.ADDRESS_GONE, error)
        return BusDelivery(BusVerdict.FAILED, error, answer.retry_after_seconds)
