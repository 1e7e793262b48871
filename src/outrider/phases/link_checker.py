"""Checks whether a link answers: a URL goes in, a status or a reason comes out.

Redirects are followed by hand, so that each of them is checked like the link itself; the address
guard sees every connection that is really made.
"""

import asyncio
from collections import defaultdict
from typing import Final, NamedTuple

from yarl import URL

from outrider.domain.call_results import AttemptError
from outrider.gateways.http import is_about_certificates
from outrider.gateways.http_client import HttpClient
from outrider.limits.phases import (
    LINK_CONCURRENCY,
    LINK_CONNECT_SECONDS,
    LINK_CONNECTIONS_PER_HOST,
    LINK_MAX_CHARACTERS,
    LINK_REDIRECTS_MAX,
    LINK_SECONDS,
)

REDIRECTS = frozenset({301, 302, 303, 307, 308})
NO_URL: Final = "is not a URL that can be requested"

_REASONS: Final = {
    "timeout": "did not answer in time",
    "connect_timeout": "did not answer in time",
    "dns_failure": "its host name has no address",
    "tls_failure": "no TLS connection could be made",
    "address_refused": "leads to an address that is not public",
    "connect_failed": "no connection could be made",
    "invalid_url": NO_URL,
    "invalid_answer": "its response is not HTTP",
}


class LinkFinding(NamedTuple):
    """The last status of a link, or the reason why it has none."""

    status: int | None = None
    reason: str | None = None

    @property
    def answers(self) -> bool:
        return self.status is not None and 200 <= self.status < 400


class Unfit(Exception):
    """A link or a redirect that must not be requested, or does not answer."""


class LinkChecker:
    """To be created inside the running loop and closed by its creator."""

    def __init__(self, *, allow_private: bool, seconds: float = LINK_SECONDS) -> None:
        self._seconds = seconds
        self._client = HttpClient(
            timeout_seconds=seconds,
            connect_seconds=LINK_CONNECT_SECONDS,
            connections=LINK_CONCURRENCY,
            allow_private=allow_private,
        )
        self._hosts: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(LINK_CONNECTIONS_PER_HOST)
        )

    async def check(self, link: str) -> LinkFinding:
        if len(link) > LINK_MAX_CHARACTERS:
            return LinkFinding(reason=f"is longer than {LINK_MAX_CHARACTERS} characters")
        try:
            async with asyncio.timeout(self._seconds):
                return await self._follow(link)
        except Unfit as unfit:
            return LinkFinding(reason=str(unfit))
        except TimeoutError:
            return LinkFinding(reason=_REASONS["timeout"])
        except ValueError:
            return LinkFinding(reason=NO_URL)

    async def close(self) -> None:
        await self._client.close()

    async def _follow(self, link: str) -> LinkFinding:
        url = _fit(URL(link))
        for _ in range(LINK_REDIRECTS_MAX + 1):
            status, location = await self._ask(url)
            if status not in REDIRECTS or not location:
                return LinkFinding(status)
            url = _fit(url.join(URL(location)))
        return LinkFinding(reason=f"redirects more than {LINK_REDIRECTS_MAX} times")

    async def _ask(self, url: URL) -> tuple[int, str | None]:
        """HEAD, which costs least. Many servers get it wrong, so GET has the last word."""
        for method in ("HEAD", "GET"):
            async with self._hosts[url.raw_host or ""]:
                answer = await self._client.ask(method, url, wants_body=False)
            if isinstance(answer, AttemptError):
                raise Unfit(_reason(answer))
            status, location = answer.status, answer.location
            if status < 400:
                break
        return status, location


def _fit(url: URL) -> URL:
    if url.scheme not in ("http", "https") or not url.host:
        raise Unfit("leads to something other than http and https")
    if url.user is not None or url.password is not None:
        raise Unfit("carries credentials")
    return url


def without_credentials(link: str) -> str:
    """As it may be shown: anything before an @ in the host part is removed."""
    scheme, separator, rest = link.partition("://")
    end = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
    authority, path = rest[:end], rest[end:]
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{path}"


def _reason(error: AttemptError) -> str:
    if is_about_certificates(error):
        return "its certificate is not valid"
    return _REASONS.get(error.code, "the connection was lost")
