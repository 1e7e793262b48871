"""The client for ordinary code, on the standard library's HTTP. Threads may share one."""

import http.client
import queue
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import msgspec

from outrider_client.addresses import (
    ANSWER_MAX_BYTES,
    TIMEOUT_SECONDS,
    address_of,
    authorisation,
    length_of,
    rewound,
    start_of,
)
from outrider_client.base import Page
from outrider_client.calls import Call, call
from outrider_client.errors import Refused, Unreachable, error_of
from outrider_client.models import CampaignStatus, EventEnvelope
from outrider_client.operations import Operations
from outrider_client.retries import Retries, is_temporary
from outrider_client.watching import SILENT_SECONDS, SNAPSHOT_REQUIRED, EventLines, StreamRules

Answer = TypeVar("Answer")
Item = TypeVar("Item")
Given = ParamSpec("Given")
IDLE_MAX = 8
BROKEN = (OSError, http.client.HTTPException)


class Client(Operations):
    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retries: Retries | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address = address_of(url)
        self._headers = authorisation(key)
        self._timeout_seconds = timeout_seconds
        self._retries = retries or Retries()
        self._tls = tls
        self._idle: queue.LifoQueue[http.client.HTTPConnection] = queue.LifoQueue(IDLE_MAX)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes idle connections; the client can still be used."""
        while True:
            try:
                self._idle.get_nowait().close()
            except queue.Empty:
                return

    def every(
        self, method: Callable[Given, Page[Item]], *args: Given.args, **query: Given.kwargs
    ) -> Iterator[Item]:
        """All items of a list, page by page: `client.every(client.list_doubts, run_id=…)`."""
        given: dict[str, Any] = dict(query)
        while True:
            page = method(*args, **given)
            yield from page.items
            if page.next is None:
                return
            given["after"] = page.next

    def watch(self, campaign_id: str) -> Iterator[CampaignStatus | EventEnvelope]:
        """The campaign's snapshot, then each change, for as long as it is iterated.

        After a lost connection it continues with a new snapshot, which takes precedence over all
        that came before. Nothing is repeated, and nothing old follows something newer.
        """
        rules, failures, since = StreamRules(), 0, time.monotonic()
        while True:
            status = self.get_campaign_status(campaign_id)
            rules.begin(status)
            yield status
            try:
                for event in self._events(campaign_id, rules.sequence):
                    failures, since = 0, time.monotonic()
                    if event.type == SNAPSHOT_REQUIRED:
                        break
                    if rules.accepts(event):
                        yield event
            except BROKEN as error:
                failures += 1
                self._wait(failures, since, None, error)

    def _events(self, campaign_id: str, after: int) -> Iterator[EventEnvelope]:
        path = ("campaigns", campaign_id, "events")
        asked = call("GET", path, bytes, query={"after": after})
        with closing(self._connection(SILENT_SECONDS)) as connection:
            response = self._sent(connection, asked, 0)
            if response.status != 200:
                if is_temporary(response.status, response.getheader("Retry-After")):
                    raise ConnectionError(f"status {response.status}")
                raise error_of(response.status, response.read(ANSWER_MAX_BYTES))
            lines = EventLines()
            while line := response.readline():
                if event := lines.feed(line):
                    yield event
        raise ConnectionError("the stream has ended")

    def _ask(self, asked: Call[Answer]) -> Answer:
        begun, attempt, start = time.monotonic(), 0, start_of(asked.content)
        while True:
            attempt += 1
            try:
                status, retry_after, body = self._once(asked, start)
            except BROKEN as error:
                self._wait(attempt, begun, None, error)
                continue
            if status < 300:
                return self._decoded(asked, body)
            refusal = error_of(status, body)
            if not is_temporary(status, retry_after):
                raise refusal
            self._wait(attempt, begun, retry_after, refusal)

    def _decoded(self, asked: Call[Answer], body: bytes) -> Answer:
        try:
            return asked.decoded(body)
        except msgspec.MsgspecError as error:
            raise Unreachable(f"the answer is not what this version expects: {error}") from error

    def _wait(self, attempt: int, begun: float, retry_after: str | None, error: Exception) -> None:
        delay = self._retries.delay(attempt, time.monotonic() - begun, retry_after)
        if delay is not None:
            time.sleep(delay)
        elif isinstance(error, Refused | Unreachable):
            raise error
        else:
            raise Unreachable(f"no answer from {self._address.url.netloc}: {error}") from error

    def _once(self, asked: Call[Any], start: int) -> tuple[int, str | None, bytes]:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = self._connection(self._timeout_seconds)
        try:
            response = self._sent(connection, asked, start)
            body = response.read(ANSWER_MAX_BYTES)
        except BaseException:
            connection.close()
            raise
        self._give_back(connection, response)
        return response.status, response.getheader("Retry-After"), body

    def _give_back(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        try:
            if response.isclosed() and not response.will_close:
                self._idle.put_nowait(connection)
                return
        except queue.Full:
            pass
        connection.close()

    def _sent(
        self, connection: http.client.HTTPConnection, asked: Call[Any], start: int
    ) -> http.client.HTTPResponse:
        content = rewound(asked.content, start)
        headers = {**self._headers, **asked.headers}
        headers["Content-Length"] = str(length_of(content, start))
        connection.request(asked.method, self._address.path + asked.path, content, headers)
        return connection.getresponse()

    def _connection(self, timeout_seconds: float) -> http.client.HTTPConnection:
        url = self._address.url
        host = url.hostname or ""
        if url.scheme == "https":
            tls = self._tls or ssl.create_default_context()
            return http.client.HTTPSConnection(host, url.port, timeout=timeout_seconds, context=tls)
        return http.client.HTTPConnection(host, url.port, timeout=timeout_seconds)
