"""The NATS sink: each event to JetStream under its id, and delivered once the stream has it.

JetStream itself drops what it has had under the same id before. A broken connection is discarded,
and the next window opens another: nothing is buffered that could arrive late and out of order.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from outrider.domain.errors import InvalidInput
from outrider.domain.sink_urls import SinkUrl, sink_url
from outrider.limits.bus import NATS_CONCURRENCY, NATS_DUPLICATES_SECONDS, NATS_STREAM_KEPT_SECONDS
from outrider.ports.bus import DELIVERED, BusDelivery, BusEvent, BusVerdict, first_fails
from outrider.ports.secrets import SecretStore, own_secret
from outrider.settings import SinkSettings
from outrider.sinks.in_order import publish_in_order

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
        self._lost: asyncio.Future[None] | None = None
        self._stream_is_there = False
        self._credentials()

    async def publish(self, window: Sequence[BusEvent]) -> Sequence[BusDelivery]:
        from nats.errors import Error
        from nats.js.errors import APIError, NoStreamResponseError

        try:
            jetstream = await self._jetstream()
        except (Error, OSError, TimeoutError) as error:
            await self.close()
            failed = self._failed(type(error).__name__, error)
            return first_fails([event.run_id for event in window], failed)

        async def publish_one(event: BusEvent) -> BusDelivery:
            try:
                await self._unless_lost(
                    jetstream.publish(
                        f"{self._subject}.{event.outbox_id or event.run_id}",
                        event.content,
                        timeout=self._seconds,
                        stream=self._stream,
                        headers={"Nats-Msg-Id": event.id},
                    )
                )
            except NoStreamResponseError as error:
                # It existed before: somebody has deleted it, or its server is still starting.
                self._stream_is_there = False
                return self._failed("no_stream", error)
            except APIError as error:
                return self._failed(f"jetstream_{error.err_code}", error)
            except (Error, OSError, TimeoutError) as error:
                await self.close()
                return self._failed(type(error).__name__, error)
            return DELIVERED

        return await publish_in_order(window, publish_one, NATS_CONCURRENCY)

    async def close(self) -> None:
        client, self._client, self._stream_is_there = self._client, None, False
        if client is not None:
            await client.close()

    async def _jetstream(self) -> "JetStreamContext":
        if self._client is not None and not self._client.is_connected:
            await self.close()
        if self._client is None:
            self._client = await self._connected()
        jetstream = self._client.jetstream(timeout=self._seconds)
        if not self._stream_is_there:
            await self._make_stream(jetstream)
            self._stream_is_there = True
        return jetstream

    async def _connected(self) -> "Client":
        from nats.aio.client import Client

        client = Client()
        lost = self._lost = asyncio.get_running_loop().create_future()

        async def closed() -> None:
            if not lost.done():
                lost.set_result(None)

        try:
            async with asyncio.timeout(self._seconds):
                await client.connect(
                    self._url.server,
                    name=f"outrider {self._name}",
                    allow_reconnect=False,
                    # Otherwise a server that is not there is asked sixty times, for two minutes.
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    error_cb=self._told,
                    closed_cb=closed,
                    **self._credentials(),
                )
        except BaseException:
            await client.close()
            raise
        return client

    async def _unless_lost(self, publishing: Coroutine[Any, Any, Any]) -> None:
        """A lost connection is known at once; the library would wait for an answer to the end."""
        assert self._lost is not None, "there was a connection"
        answer = asyncio.ensure_future(publishing)
        try:
            await asyncio.wait({answer, self._lost}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise ConnectionAbortedError("NATS closed the connection")
            answer.result()
        finally:
            answer.cancel()

    async def _make_stream(self, jetstream: "JetStreamContext") -> None:
        """An existing stream is not changed: its retention is up to its owner."""
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
        secret = own_secret(self._secrets, self._secret)
        if USER_JWT in secret:
            return {"user_credentials": RawCredentials(secret)}
        if self._url.user is not None:
            return {"user": self._url.user, "password": secret}
        return {"token": secret}

    async def _told(self, error: Exception) -> None:
        log.warning("nats_connection", sink=self._name, error=str(error) or type(error).__name__)

    def _failed(self, code: str, error: Exception) -> BusDelivery:
        log.warning("nats_failed", sink=self._name, error=code, detail=str(error))
        return BusDelivery(BusVerdict.FAILED, code)


def _require_library() -> None:
    try:
        import nats  # noqa: F401
    except ImportError as error:
        raise InvalidInput(
            "a NATS sink requires the package nats-py", hint='pip install "outrider[nats]"'
        ) from error
