"""The webhook sink: one signed POST an event. Only 2xx is a delivery, no redirect is followed."""

from collections.abc import Sequence

import structlog
from yarl import URL

from outrider.domain.call_results import AttemptError
from outrider.domain.cloud_events import CONTENT_TYPE
from outrider.domain.webhook_signatures import signed_headers, signing_keys
from outrider.gateways.http import ReceivedAnswer
from outrider.gateways.http_client import HttpClient
from outrider.limits.bus import WEBHOOK_ANSWER_MAX_BYTES, WEBHOOK_CONCURRENCY
from outrider.limits.gateways import HTTP_CONNECT_SECONDS
from outrider.ports.bus import DELIVERED, BusDelivery, BusEvent, BusVerdict
from outrider.ports.clock import Clock
from outrider.ports.secrets import SecretStore, own_secret
from outrider.settings import SinkSettings
from outrider.sinks.in_order import publish_in_order

log = structlog.get_logger()

GONE = 410


class WebhookSink:
    """The secret is read anew for each window, so a changed file counts at once."""

    def __init__(
        self,
        name: str,
        settings: SinkSettings,
        secrets: SecretStore,
        clock: Clock,
        *,
        allow_private: bool,
    ) -> None:
        assert settings.secret is not None, "settings refuse a webhook without one"
        self._name = name
        self._url = URL(settings.url)
        self._secret = settings.secret
        self._secrets = secrets
        self._clock = clock
        self._client = HttpClient(
            timeout_seconds=settings.timeout_seconds,
            connect_seconds=min(HTTP_CONNECT_SECONDS, settings.timeout_seconds),
            connections=WEBHOOK_CONCURRENCY,
            answer_max_bytes=WEBHOOK_ANSWER_MAX_BYTES,
            allow_private=allow_private,
        )
        self._keys()

    async def publish(self, window: Sequence[BusEvent]) -> Sequence[BusDelivery]:
        keys = self._keys()

        async def publish_one(event: BusEvent) -> BusDelivery:
            now = int(self._clock.now().timestamp())
            headers = signed_headers(keys, event.id, now, event.content)
            answer = await self._client.post(
                self._url, event.content, CONTENT_TYPE, headers=headers
            )
            if isinstance(answer, AttemptError):
                # The detail names hosts; what is kept with the event does not.
                log.warning(
                    "webhook_failed", sink=self._name, error=answer.code, detail=answer.detail
                )
                return BusDelivery(BusVerdict.FAILED, answer.code)
            assert isinstance(answer, ReceivedAnswer), "nobody withholds an event"
            if 200 <= answer.status < 300:
                return DELIVERED
            verdict = BusVerdict.GONE if answer.status == GONE else BusVerdict.FAILED
            return BusDelivery(verdict, f"http_{answer.status}", answer.retry_after_seconds)

        return await publish_in_order(window, publish_one, WEBHOOK_CONCURRENCY)

    async def close(self) -> None:
        await self._client.close()

    def _keys(self) -> list[bytes]:
        return signing_keys(own_secret(self._secrets, self._secret))
