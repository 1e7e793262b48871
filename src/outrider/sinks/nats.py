"""The NATS sink: each event to JetStream under its id, and delivered once the stream has it.

JetStream itself drops what it has had under the same id before. A broken connection is thrown away
and the next window makes another: nothing is buffered that might arrive late and out of order.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import structlog

from outrider.domain.errors import InvalidInput
from outrider.domain.sink_urls import SinkUrl, sink_url
from outrider.ports.bus import DELIVERED, BusEvent, Delivery, Verdict, first_fails
from outrider.ports.secrets import SecretStore
from outrider.settings import (
    NATS_CONCURRENCY,
    NATS_DUPLICATES_SECONDS,
    NATS_STREAM_KEPT_SECONDS,
    SinkSettings,
)
from outrider.sinks.in_order import tell_in_order

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js import JetStreamContext

log = structlog.get_logger()

STREAM = "OUTRIDER"
SUBJECT = "outrider.run-events"
USER_JWT = "BEGIN NATS USER JWT"


class NatsSink:
    def __init__(self, name: str, settings: SinkSettings, secrets: SecretStore) -> None:
        _require_library()
        self._name = name
        self._url: SinkUrl = sink_url(settings.url)
        self._stream = self._url.options.get("stream", STREAM)
        self._subject = self._url.options.get("subject", SUBJECT)
        self._secret = settings.secret
        self._secrets = secrets
        self._seconds = settings.timeout_seconds
        self._client: Client | None = None
        self._stream_is_there = False
        self._credentials()

    async def publish(self, window: Sequence[BusEvent]) -> Sequence[Delivery]:
        from nats.errors import Error
        from nats.js.errors import APIError, NoStreamResponseError

        try:
            jetstream = await self._jetstream()
        except (Error, OSError, TimeoutError) as error:
            await self.close()
            return first_fails(window, self._failed(type(error).__name__, error))

        async def tell(event: BusEvent) -> Delivery:
            try:
                await jetstream.publish(
                    f"{self._subject}.{event.run_id}",
                    event.content,
                    timeout=self._seconds,
                    stream=self._stream,
                    headers={"Nats-Msg-Id": event.id},
                )
            except NoStreamResponseError as error:
                # It was there before: somebody has deleted it, or its server is only starting.
                self._stream_is_there = False
                return self._failed("no_stream", error)
            except APIError as error:
                return self._failed(f"jetstream_{error.err_code}", error)
            except (Error, OSError, TimeoutError) as error:
                await self.close()
                return self._failed(type(error).__name__, error)
            return DELIVERED

        return await tell_in_order(window, tell, NATS_CONCURRENCY)

    async def close(self) -> None:
        client, self._client, self._stream_is_there = self._client, None, False
        if client is not None:
            await client.close()

    async def _jetstream(self) -> "JetStreamContext":
        import nats

        if self._client is not None and not self._client.is_connected:
            await self.close()
        if self._client is None:
            self._client = await nats.connect(
                self._url.server,
                name=f"outrider {self._name}",
                allow_reconnect=False,
                connect_timeout=self._seconds,
                error_cb=self._told,
                **self._credentials(),
            )
        jetstream = self._client.jetstream(timeout=self._seconds)
        if not self._stream_is_there:
            await self._make_stream(jetstream)
            self._stream_is_there = True
        return jetstream

    async def _make_stream(self, jetstream: "JetStreamContext") -> None:
        """A stream that is there is left as it is: its keeping is its owner's business."""
        from nats.js.api import StreamConfig
        from nats.js.errors import NotFoundError

        try:
            await jetstream.stream_info(self._stream)
        except NotFoundError:
            await jetstream.add_stream(
                StreamConfig(
                    name=self._stream,
                    subjects=[f"{self._subject}.>"],
                    max_age=NATS_STREAM_KEPT_SECONDS,
                    duplicate_window=NATS_DUPLICATES_SECONDS,
                )
            )

    def _credentials(self) -> dict[str, Any]:
        """A credentials file's content, the password of the URL's user, or a token."""
        from nats.aio.client import RawCredentials

        if self._secret is None:
            return {}
        secret = self._secrets.resolve(self._secret)
        if USER_JWT in secret:
            return {"user_credentials": RawCredentials(secret)}
        if self._url.user is not None:
            return {"user": self._url.user, "password": secret}
        return {"token": secret}

    async def _told(self, error: Exception) -> None:
        log.warning("nats_connection", sink=self._name, error=str(error) or type(error).__name__)

    def _failed(self, code: str, error: Exception) -> Delivery:
        log.warning("nats_failed", sink=self._name, error=code, detail=str(error))
        return Delivery(Verdict.FAILED, code)


def _require_library() -> None:
    try:
        import nats  # noqa: F401
    except ImportError as error:
        raise InvalidInput(
            "a NATS sink needs the package nats-py", hint='pip install "outrider[nats]"'
        ) from error
