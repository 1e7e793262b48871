"""Signing in to the console: the cookie, what it opens, and everything that somebody might try."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from outrider.bootstrap import make_store
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.keys import KeyId, KeyScope
from outrider.domain.sessions import SECRET_BYTES
from outrider.kernel.access.key_keeper import KeyKeeper
from outrider.kernel.access.session_keeper import SessionKeeper
from outrider.limits.access import FAILED_AUTH_BURST, KEY_REMEMBER_SECONDS, SESSION_SECONDS
from outrider.limits.api import ApiLimits
from outrider.ports.store import Store
from outrider.testing.clock import FakeClock
from outrider.testing.launches import target
from tests.support.api_inside import Inside, serving
from tests.support.api_server import Stream, campaign, running_server
from tests.support.foundations import foundation
from tests.support.whole_runs import opened

NOOP = target("noop", "noop", "noop:")
COOKIE = "outrider_session"
HERE = {"Sec-Fetch-Site": "same-origin"}
ROOT_KEY = "the root key of these tests"
SECRET = bytes(range(SECRET_BYTES))


class Office(NamedTuple):
    """One server's keepers on a database."""

    keys: KeyKeeper
    sessions: SessionKeeper

    @classmethod
    def on(
        cls, store: Store, clock: FakeClock, root_key: str | None = None, secret: bytes = SECRET
    ) -> "Office":
        keys = KeyKeeper(foundation(store, clock=clock), os.urandom, root_key)
        keeper = SessionKeeper(
            foundation(store, clock=clock), keys, os.urandom, root_key, lambda: secret
        )
        return cls(keys, keeper)

    async def token(self, text: str) -> str:
        principal = await self.keys.authenticate(text)
        assert principal is not None
        return (await self.sessions.begin(principal)).token

    async def key(self, scope: KeyScope = KeyScope.OPERATE) -> tuple[KeyId, str]:
        made, text = await self.keys.create(DEFAULT_SCOPE, "ci", {scope}, "test")
        return made.id, text


async def test_a_server_with_another_secret_does_not_take_the_session(store: Store) -> None:
    """X12: what the database holds is not enough to be taken for somebody."""
    clock = FakeClock()
    here, there = Office.on(store, clock), Office.on(store, clock, secret=bytes(SECRET_BYTES))
    _, text = await here.key()
    token = await here.token(text)
    assert await here.sessions.find(token) is not None
    assert await there.sessions.find(token) is None


async def test_a_session_is_its_keys_and_is_taken_by_every_server(store: Store) -> None:
    clock = FakeClock()
    here, there = Office.on(store, clock), Office.on(store, clock)
    key_id, text = await here.key()
    token = await here.token(text)
    for office in (here, there):
        session = await office.sessions.find(token)
        assert session is not None
        assert (session.principal.key_id, session.principal.actor) == (key_id, "key:ci")
        assert session.principal.allows(KeyScope.OPERATE)
        assert not session.principal.allows(KeyScope.ADMIN)
        assert (await office.sessions.workspace_of(session)).project == "default"


async def test_a_session_expires(store: Store) -> None:
    clock = FakeClock()
    office = Office.on(store, clock)
    token = await office.token((await office.key())[1])
    clock.advance(SESSION_SECONDS - 1)
    assert await office.sessions.find(token) is not None
    clock.advance(1)
    assert await office.sessions.find(token) is None


async def test_a_revoked_key_ends_its_sessions(store: Store) -> None:
    clock = FakeClock()
    here, there = Office.on(store, clock), Office.on(store, clock)
    key_id, text = await here.key()
    token = await here.token(text)
    assert await there.sessions.find(token) is not None
    await here.keys.revoke(DEFAULT_SCOPE, key_id, "test")
    assert await here.sessions.find(token) is None
    # Elsewhere as soon as what was remembered of the key is asked for anew.
    clock.advance(KEY_REMEMBER_SECONDS)
    assert await there.sessions.find(token) is None


async def test_a_changed_root_key_ends_its_sessions(store: Store) -> None:
    clock = FakeClock()
    token = await Office.on(store, clock, ROOT_KEY).token(ROOT_KEY)
    same = await Office.on(store, clock, ROOT_KEY).sessions.find(token)
    assert same is not None
    assert same.principal.name == "root"
    assert await Office.on(store, clock, "another root key").sessions.find(token) is None
    assert await Office.on(store, clock, None).sessions.find(token) is None


async def test_another_databases_session_opens_nothing(store: Store, tmp_path: Path) -> None:
    clock = FakeClock()
    office = Office.on(store, clock, ROOT_KEY)
    other = make_store(f"sqlite:///{tmp_path}/other.db")
    await other.migrate()
    for text in (ROOT_KEY, (await (elsewhere := Office.on(other, clock, ROOT_KEY)).key())[1]):
        assert await office.sessions.find(await elsewhere.token(text)) is None
    await other.close()


class Browser:
    """Sends the cookie as a browser would, and otherwise only what it is told to."""

    def __init__(self, server: Inside) -> None:
        self._server = server
        self.url = server.url.removesuffix("/api/v2")
        self.host = self.url.removeprefix("http://")
        self.cookie: str | None = None
        self.csrf = ""

    async def sign_in(self, key: str | None = None) -> Any:
        status, headers, document = await self.send(
            "POST", "/session", {"key": key or self._server.key}, HERE
        )
        assert status == 200, document
        self.cookie = headers["Set-Cookie"].partition(";")[0]
        self.csrf = document["csrfToken"]
        return document

    async def send(
        self,
        method: str,
        path: str,
        json: object = None,
        headers: dict[str, str] | None = None,
        *,
        cookie: str | None = None,
    ) -> tuple[int, Any, Any]:
        sent = cookie or self.cookie
        given = {**({"Cookie": sent} if sent else {}), **(headers or {})}
        async with self._server.session.request(
            method, self.url + path, json=json, headers=given
        ) as answer:
            document = await answer.json(content_type=None) if method != "HEAD" else None
            return answer.status, answer.headers, document

    async def change(self, headers: dict[str, str] | None = None) -> tuple[int, str | None]:
        """What a change is answered that an operator may make."""
        status, _, document = await self.send(
            "POST", "/api/v2/suppressions",
            {"channel": "sms", "addresses": ["+447700900999"]}, headers,
        )  # fmt: skip
        return status, document.get("error", {}).get("code")


@asynccontextmanager
async def browsing(tmp_path: Path, **limits: Any) -> AsyncIterator[tuple[Inside, Browser]]:
    async with (
        opened(f"sqlite:///{tmp_path}/outrider.db", tmp_path, NOOP) as outrider,
        serving(outrider, ApiLimits(**limits)) as server,
        # The jar of the client would send cookies that a test does not know of.
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
    ):
        yield server, Browser(Inside(server.address, server.services, session, server.key))


async def made_key(server: Inside, scope: str) -> dict[str, Any]:
    return await server.post("/keys", {"name": scope, "scopes": [scope]})


async def test_signing_in_gives_a_cookie_that_scripts_and_other_sites_cannot_use(
    tmp_path: Path,
) -> None:
    async with browsing(tmp_path) as (server, browser):
        status, headers, document = await browser.send(
            "POST", "/session", {"key": server.key}, HERE
        )
        assert status == 200
        cookie, *flags = [piece.strip() for piece in headers["Set-Cookie"].split(";")]
        assert cookie.startswith(f"{COOKIE}=")
        assert {flag.lower() for flag in flags} == {
            "httponly", "samesite=strict", "path=/", f"max-age={SESSION_SECONDS}",
        }  # fmt: skip
        assert headers["Cache-Control"] == "no-store"
        token = cookie.partition("=")[2]
        assert document.keys() == {"name", "scopes", "workspace", "csrfToken", "expiresAt"}
        assert document["scopes"] == ["read", "operate", "admin"]
        assert document["workspace"] == {
            "tenant": "default", "project": "default", "environment": "default",
        }  # fmt: skip
        assert token not in str(document)
        assert server.key not in str(document)
        browser.cookie = cookie
        status, _, again = await browser.send("GET", "/session")
        assert (status, again) == (200, document)
        status, _, _ = await browser.send("GET", "/api/v2/campaigns")
        assert status == 200


async def test_behind_tls_the_cookie_is_kept_to_it(tmp_path: Path) -> None:
    async with running_server(
        tmp_path, workers=0, arguments=("--behind-tls",), environment={}
    ) as server:
        for method, body in (("POST", {"key": server.key}), ("DELETE", None)):
            async with aiohttp.request(method, f"{server.url}/session", json=body) as answer:
                assert answer.status == 200
                assert "; Secure" in answer.headers["Set-Cookie"]


async def test_nobody_is_signed_in_without_a_cookie(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (server, browser):
        for headers in ({}, server.headers, {"Cookie": "other=1"}):
            status, answered, document = await browser.send("GET", "/session", headers=headers)
            assert (status, document["error"]["code"]) == (401, "UNAUTHENTICATED")
            assert answered["WWW-Authenticate"].startswith("Bearer")


async def test_a_foreign_cookie_opens_nothing_and_does_not_count_as_a_wrong_key(
    tmp_path: Path,
) -> None:
    async with browsing(tmp_path) as (_, browser):
        await browser.sign_in()
        good = browser.cookie or ""
        for _ in range(2):
            for bad in (
                f"{COOKIE}=", f"{COOKIE}=x", good[:-1], f"{good}A", good[:-2] + "AA",
                f"{COOKIE}=%00", f"{good}; {COOKIE}=planted", f"{COOKIE}=planted; {good}",
            ):  # fmt: skip
                status, _, document = await browser.send("GET", "/api/v2/campaigns", cookie=bad)
                assert (status, document["error"]["code"]) == (401, "UNAUTHENTICATED"), bad
        assert (await browser.send("GET", "/api/v2/campaigns"))[0] == 200


async def test_a_change_needs_the_sessions_own_token_against_forgery(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (_, browser):
        await browser.sign_in()
        of_another_session = browser.csrf
        await browser.sign_in()
        for wrong in (None, "", "x", of_another_session, browser.csrf[:-1], browser.csrf.lower()):
            sent = {**HERE, **({"X-CSRF-Token": wrong} if wrong is not None else {})}
            assert await browser.change(sent) == (403, "CSRF_TOKEN_INVALID"), wrong
        assert (await browser.change({**HERE, "X-CSRF-Token": browser.csrf}))[0] == 200


@pytest.mark.parametrize(
    ("headers", "let_in"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Origin": "http://{host}"}, True),
        ({"Origin": "https://{host}"}, True),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://proxied.example"}, True),
        ({}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://{host}"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": ""}, False),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "http://{host}.evil.example"}, False),
        ({"Origin": "http://evil.example/{host}"}, False),
        ({"Origin": "http://evil.example@{host}.evil"}, False),
        ({"Origin": "http://127.0.0.1:1"}, False),
        ({"Origin": "http://["}, False),
        ({"Referer": "http://{host}/"}, False),
    ],
)
async def test_a_change_comes_from_this_origin_or_not_at_all(
    tmp_path: Path, headers: dict[str, str], let_in: bool
) -> None:
    async with browsing(tmp_path) as (_, browser):
        await browser.sign_in()
        sent = {name: value.format(host=browser.host) for name, value in headers.items()}
        answered = await browser.change({**sent, "X-CSRF-Token": browser.csrf})
        assert answered == ((200, None) if let_in else (403, "CROSS_SITE_REQUEST"))


async def test_an_origin_that_may_read_answers_may_not_use_a_session(tmp_path: Path) -> None:
    origin = "https://partner.example.test"
    environment = {"OUTRIDER_CORS_ORIGINS": f'["{origin}"]'}
    async with running_server(tmp_path, workers=0, environment=environment) as server:
        async with aiohttp.request(
            "POST", f"{server.url}/session", json={"key": server.key}
        ) as answer:
            cookie = answer.headers["Set-Cookie"].partition(";")[0]
            csrf = (await answer.json())["csrfToken"]
        sent = {"Cookie": cookie, "X-CSRF-Token": csrf, "Origin": origin}
        refused = await server.request("POST", "/keys", {}, sent, key="")
        assert refused.json["error"]["code"] == "CROSS_SITE_REQUEST"
        read = await server.request("GET", "/campaigns", headers=sent, key="")
        # A browser shows nobody an answer to a request with a cookie that is not allowed so.
        assert "Access-Control-Allow-Credentials" not in read.headers


async def test_a_key_needs_no_token_and_wins_over_the_cookie(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (server, browser):
        await browser.sign_in()
        assert (await browser.change(server.headers))[0] == 200
        for wrong in ("Bearer x", "Bearer", "Basic eDp5", ""):
            sent = {"Authorization": wrong, **HERE, "X-CSRF-Token": browser.csrf}
            assert await browser.change(sent) == (401, "UNAUTHENTICATED"), wrong


async def test_signing_in_as_somebody_else_from_another_site_is_refused(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (server, browser):
        for headers in (
            {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
            {"Origin": "http://evil.example"}, {"Origin": "null"},
        ):  # fmt: skip
            status, answered, document = await browser.send(
                "POST", "/session", {"key": server.key}, headers
            )
            assert (status, document["error"]["code"]) == (403, "CROSS_SITE_REQUEST")
            assert "Set-Cookie" not in answered


@pytest.mark.parametrize(
    ("body", "media_type", "status"),
    [
        (b'{"key": "x"}', "application/json", 401),
        (b"key=x", "application/x-www-form-urlencoded", 415),
        (b'{"key": "x"}', "text/plain", 415),
        (b"", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"{}", "application/json", 400),
        (b'{"key": 1}', "application/json", 400),
        (b'{"key": ""}', "application/json", 400),
        (b'{"key": "x", "key": "y"}', "application/json", 400),
        (b'{"key": "x", "more": 1}', "application/json", 400),
        (b'{"key": "\\ud800"}', "application/json", 400),
        (b'{"key": "' + b"x" * 5_000 + b'"}', "application/json", 400),
        (b" " * (ApiLimits.body_max_bytes + 1), "application/json", 413),
    ],
)
async def test_only_a_key_signs_in(
    tmp_path: Path, body: bytes, media_type: str, status: int
) -> None:
    async with browsing(tmp_path) as (server, _):
        url = server.url.removesuffix("/api/v2")
        async with server.session.post(
            f"{url}/session", data=body, headers={"Content-Type": media_type}
        ) as answer:
            assert answer.status == status
            assert "Set-Cookie" not in answer.headers
            assert "xxxxx" not in await answer.text()


async def test_failed_sign_ins_count_like_wrong_keys_and_end_no_session(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (server, browser):
        await browser.sign_in()
        for _ in range(FAILED_AUTH_BURST):
            status, _, _ = await browser.send("POST", "/session", {"key": "wrong"}, HERE)
            assert status == 401
        status, headers, document = await browser.send("POST", "/session", {"key": "x"}, HERE)
        assert (status, document["error"]["code"]) == (429, "TOO_MANY_FAILED_AUTHENTICATIONS")
        assert int(headers["Retry-After"]) > 0
        # Who has a session keeps it, and a key that was good before still is.
        assert (await browser.send("GET", "/api/v2/campaigns"))[0] == 200
        await browser.sign_in(server.key)


async def test_a_session_may_do_what_its_key_may(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (server, browser):
        document = await browser.sign_in((await made_key(server, "read"))["key"])
        assert (document["name"], document["scopes"]) == ("read", ["read"])
        assert (await browser.send("GET", "/api/v2/campaigns"))[0] == 200
        sent = {**HERE, "X-CSRF-Token": browser.csrf}
        assert await browser.change(sent) == (403, "INSUFFICIENT_SCOPE")
        document = await browser.sign_in((await made_key(server, "operate"))["key"])
        assert document["scopes"] == ["read", "operate"]
        sent = {**HERE, "X-CSRF-Token": browser.csrf}
        assert await browser.change(sent) == (200, None)
        assert (await browser.send("GET", "/api/v2/keys"))[0] == 403
        # What was done in a session is told of its key.
        entries = (await browser.send("GET", "/api/v2/audit"))[2]["items"]
        assert entries[-1]["actor"] == "key:operate"


async def test_signing_out_makes_the_browser_forget(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (_, browser):
        await browser.sign_in()
        for headers, code in (
            (HERE, "CSRF_TOKEN_INVALID"),
            ({"X-CSRF-Token": browser.csrf}, "CROSS_SITE_REQUEST"),
        ):
            status, answered, document = await browser.send("DELETE", "/session", headers=headers)
            assert (status, document["error"]["code"]) == (403, code)
            assert "Set-Cookie" not in answered
        sent = {**HERE, "X-CSRF-Token": browser.csrf}
        status, answered, document = await browser.send("DELETE", "/session", headers=sent)
        assert (status, document) == (200, {"success": True})
        assert f'{COOKIE}=""' in answered["Set-Cookie"]
        assert "Max-Age=0" in answered["Set-Cookie"]
        status, _, _ = await browser.send("DELETE", "/session", cookie=f"{COOKIE}=ended")
        assert status == 200


async def test_a_stream_by_cookie_ends_with_its_key(tmp_path: Path) -> None:
    async with browsing(tmp_path, stream_recheck_seconds=0.05) as (server, browser):
        campaign_id = (await server.post("/campaigns", campaign()))["campaignId"]
        key = await made_key(server, "read")
        await browser.sign_in(key["key"])
        async with server.session.get(
            f"{server.url}/stream?campaigns={campaign_id}", headers={"Cookie": browser.cookie or ""}
        ) as response:
            assert response.status == 200
            events = Stream(response)
            waiting = asyncio.create_task(events.next())
            await server.post(f"/campaigns/{campaign_id}/phases/launch/start")
            assert (await waiting).type == "phase_started"
            async with server.session.delete(
                f"{server.url}/keys/{key['id']}", headers=server.headers
            ) as revoked:
                assert revoked.status == 200
            await events.ended()
        assert (await browser.send("GET", "/session"))[0] == 401


async def test_no_key_and_no_token_is_ever_logged(tmp_path: Path) -> None:
    async with running_server(tmp_path, workers=0) as server:
        async with aiohttp.request(
            "POST", f"{server.url}/session", json={"key": server.key}
        ) as answer:
            token = answer.headers["Set-Cookie"].partition(";")[0].partition("=")[2]
            csrf = (await answer.json())["csrfToken"]
        cookie = {"Cookie": f"{COOKIE}={token}"}
        await server.request("GET", "/campaigns", headers=cookie, key="")
        await server.request("POST", "/keys", {}, {**cookie, "X-CSRF-Token": csrf}, key="")
        async with aiohttp.request(
            "POST", f"{server.url}/session", json={"key": "a-wrong-key-of-somebody"}
        ) as answer:
            assert answer.status == 401
        await server.stop()
        said = "".join(server.log_lines)
        assert '"route": "/session"' in said
        for secret in (server.key, token, csrf, "a-wrong-key-of-somebody"):
            assert secret not in said
