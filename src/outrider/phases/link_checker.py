"""Asks a link whether it answers: an address goes in, a status or a reason comes out.

Redirects are followed by hand, so that each of them is judged like the link itself; the address
guard sees every connection that is really made.
"""

import asyncio
from typing import NamedTuple

import aiohttp
from yarl import URL

from outrider.gateways.address_guard import AddressRefused, guarded_socket
from outrider.settings import (
    LINK_CONCURRENCY,
    LINK_CONNECT_SECONDS,
    LINK_CONNECTIONS_PER_HOST,
    LINK_MAX_CHARACTERS,
    LINK_REDIRECTS_MAX,
    LINK_SECONDS,
)

REDIRECTS = frozenset({301, 302, 303, 307, 308})

_REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (TimeoutError, "did not answer in time"),
    (aiohttp.ClientConnectorDNSError, "its host name has no address"),
    (aiohttp.ClientConnectorCertificateError, "its certificate is not valid"),
    (aiohttp.ClientSSLError, "no TLS connection could be made"),
    (aiohttp.ClientConnectorError, "no connection could be made"),
    (ValueError, "is not a URL that can be asked"),
    (aiohttp.ClientResponseError, "its answer is not HTTP"),
)


class Finding(NamedTuple):
    """The last status of a link, or the reason why it has none."""

    status: int | None = None
    reason: str | None = None

    @property
    def answers(self) -> bool:
        return self.status is not None and 200 <= self.status < 400


class Unfit(Exception):
    """A link or a redirect that must not be asked."""


def open_session(*, allow_private: bool) -> aiohttp.ClientSession:
    """To be made inside the running loop and closed by whoever asked for it."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=LINK_CONCURRENCY,
            limit_per_host=LINK_CONNECTIONS_PER_HOST,
            socket_factory=None if allow_private else guarded_socket,
        ),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=LINK_CONNECT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        # Bodies are never read; nothing must unfold on its way to being ignored.
        auto_decompress=False,
        headers={"Accept-Encoding": "identity", "User-Agent": "outrider"},
    )


async def check(
    session: aiohttp.ClientSession, link: str, *, seconds: float = LINK_SECONDS
) -> Finding:
    if len(link) > LINK_MAX_CHARACTERS:
        return Finding(reason=f"is longer than {LINK_MAX_CHARACTERS} characters")
    try:
        async with asyncio.timeout(seconds):
            return await _follow(session, link)
    except Unfit as unfit:
        return Finding(reason=str(unfit))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Finding(reason=_reason(error))


async def _follow(session: aiohttp.ClientSession, link: str) -> Finding:
    url = _fit(URL(link))
    for _ in range(LINK_REDIRECTS_MAX + 1):
        status, location = await _ask(session, url)
        if status not in REDIRECTS or not location:
            return Finding(status)
        url = _fit(url.join(URL(location)))
    return Finding(reason=f"redirects more than {LINK_REDIRECTS_MAX} times")


async def _ask(session: aiohttp.ClientSession, url: URL) -> tuple[int, str | None]:
    """HEAD, which costs least. Many servers are wrong about it, so GET has the last word."""
    for method in ("HEAD", "GET"):
        async with session.request(method, url, allow_redirects=False) as response:
            status, location = response.status, response.headers.get("Location")
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
    """As it may be shown: what stands before an @ in the host's place is cut out."""
    scheme, separator, rest = link.partition("://")
    end = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
    authority, path = rest[:end], rest[end:]
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{path}"


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(
        error.os_error, AddressRefused
    ):
        return "leads to an address that is not public"
    return next((said for kind, said in _REASONS if isinstance(error, kind)), "the line was cut")
