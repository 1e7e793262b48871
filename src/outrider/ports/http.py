"""HTTP as an engine needs it: a request goes out, a whole answer or a failure comes back.

The client that keeps this is the gateways' own; the composition root hands it over.
"""

from collections.abc import Mapping
from typing import Protocol

from yarl import URL

from outrider.domain.call_results import AttemptError


class HttpAnswer(Protocol):
    """A whole answer, whatever its status says."""

    @property
    def status(self) -> int: ...
    @property
    def body(self) -> bytes: ...


class HttpRequester(Protocol):
    async def ask(
        self,
        method: str,
        url: URL,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        timeout_seconds: float | None = None,
    ) -> HttpAnswer | AttemptError:
        """A failure says how far the request got; it never raises for one."""
        ...

    async def close(self) -> None: ...


class HttpMaker(Protocol):
    def __call__(self, *, timeout_seconds: float, answer_max_bytes: int) -> HttpRequester: ...
