"""Sessions over HTTP: the session cookie, and proof that a request is from our own pages.

A browser sends the cookie with any page's requests to this server. So a request that changes
something must come from this origin, according to the browser, and carry the session's CSRF token,
which only a page of this origin can read.
"""

import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from outrider.api.errors import ApiError
from outrider.kernel.access.session_keeper import Session
from outrider.limits.access import SESSION_SECONDS

COOKIE = "outrider_session"
CSRF_HEADER = "X-CSRF-Token"
READING = frozenset({"GET", "HEAD", "OPTIONS"})


def token_of(request: Request) -> str | None:
    """Also None if two were sent: one of them was planted, and we cannot tell which."""
    found = [
        value
        for header in request.headers.getlist("cookie")
        for name, _, value in (piece.strip().partition("=") for piece in header.split(";"))
        if name == COOKIE
    ]
    return found[0] if len(found) == 1 else None


def require_own_page(request: Request, session: Session) -> None:
    """For a request with a cookie; reads are let through, since other origins cannot see the
    response."""
    if request.method in READING:
        return
    if not comes_from_here(request.headers):
        raise _cross_site()
    given = request.headers.get(CSRF_HEADER, "").encode(errors="surrogatepass")
    if not hmac.compare_digest(given, session.csrf_token.encode()):
        raise ApiError(
            403,
            "CSRF_TOKEN_INVALID",
            f"a change made with a session requires the session's {CSRF_HEADER}",
            hint="GET /session returns it",
        )


def refuse_other_pages(request: Request) -> None:
    """For a request without a session: programs send no origin, and are let through."""
    sent_headers = {"origin", "sec-fetch-site"} & set(request.headers)
    if sent_headers and not comes_from_here(request.headers):
        raise _cross_site()


def comes_from_here(headers: Headers) -> bool:
    """By headers that the browser sets and no page can change."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    host = headers.get("host", "").lower()
    return bool(host) and _host_of(headers.get("origin", "")) == host


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def keep(response: Response, session: Session, *, secure: bool) -> None:
    _set(response, session.token, SESSION_SECONDS, secure=secure)


def forget(response: Response, *, secure: bool) -> None:
    _set(response, "", 0, secure=secure)


def _set(response: Response, token: str, seconds: int, *, secure: bool) -> None:
    response.set_cookie(
        COOKIE, token, max_age=seconds, path="/", secure=secure, httponly=True, samesite="strict"
    )


def _cross_site() -> ApiError:
    return ApiError(
        403, "CROSS_SITE_REQUEST", "this request came from a page of another origin",
        hint="use the console of this server, or an API key",
    )  # fmt: skip
