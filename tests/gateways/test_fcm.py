"""FCM beyond what every family does: tokens for a service account, and options of a message."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from outrider.domain.call_results import (
    Accepted,
    AttemptError,
    CallResult,
    Held,
    Progress,
    Rejected,
    Throttled,
)
from outrider.domain.errors import InvalidInput
from outrider.domain.workspaces import WorkspaceName
from outrider.gateways.access_tokens import AccessToken, AccessTokens
from outrider.gateways.directory import Gateways
from outrider.gateways.families.google_tokens import GRANT
from outrider.gateways.families.push_options import topic
from outrider.limits.gateways import TOKEN_RENEWAL_SECONDS
from outrider.ports.gateway import Gateway
from outrider.ports.target_check import CheckableGateway, CheckFailure, CheckStep
from outrider.settings import TargetSettings
from outrider.testing.gateway_suite import REFERENCE, reserve
from tests.support.broken_server import Reader, Writer, closed_port, http, read_request, serving

KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
PEM = KEY.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.NoEncryption(),
).decode()
SENT = http(200, b'{"name":"projects/shop/messages/1"}')


class Google:
    """Google's token server and FCM, in one. Tokens are `t-1`, `t-2` …"""

    def __init__(self) -> None:
        self.assertions: list[str] = []
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self.token_answers: deque[bytes] = deque()
        self.answers: deque[bytes] = deque()
        self.expires_in = 3_599
        self.port = 0

    async def serve(self, reader: Reader, writer: Writer) -> None:
        while True:
            try:
                raw = await read_request(reader)
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            head, _, body = raw.partition(b"\r\n\r\n")
            if head.startswith(b"POST /token "):
                writer.write(self._token(body))
            else:
                lines = head.decode().split("\r\n")
                (token,) = [each for each in lines if each.startswith("Authorization: ")]
                self.messages.append((token.removeprefix("Authorization: "), json.loads(body)))
                writer.write(self.answers.popleft() if self.answers else SENT)

    def _token(self, body: bytes) -> bytes:
        form = parse_qs(body.decode())
        assert form["grant_type"] == [GRANT]
        self.assertions.append(form["assertion"][0])
        if self.token_answers:
            return self.token_answers.popleft()
        answer = {"access_token": f"t-{len(self.assertions)}", "expires_in": self.expires_in}
        return http(200, json.dumps(answer).encode())

    @property
    def account(self) -> str:
        uri = f"http://127.0.0.1:{self.port}/token"
        return json.dumps(
            {"type": "service_account", "client_email": "push@shop.example", "token_uri": uri,
             "private_key": PEM, "private_key_id": "key-1"}, indent=2,
        )  # fmt: skip


class Secrets:
    def __init__(self, value: Callable[[], str]) -> None:
        self.value = value

    def resolve(self, references: Sequence[str], workspace: WorkspaceName) -> dict[str, str]:  # noqa: ARG002
        return {each: self.value() for each in references}


def settings(**options: str) -> TargetSettings:
    return TargetSettings(
        options={"project": "shop", **options}, credentials={"serviceAccount": "file:/account"}
    )


@asynccontextmanager
async def fcm(google: Google, **options: str) -> AsyncIterator[tuple[Gateway, Gateway]]:
    """Two targets of one process with the same account."""
    async with serving(google.serve) as google.port:
        targets = {"one": settings(**options), "two": settings(**options)}
        gateways = Gateways(Secrets(lambda: google.account), targets=targets)
        url = f"http://127.0.0.1:{google.port}"
        yield gateways.gateway("one", "fcm", url), gateways.gateway("two", "fcm", url)
        await gateways.close()


async def sent(google: Google, payload: dict[str, Any], **options: str) -> dict[str, Any]:
    async with fcm(google, **options) as (gateway, _):
        result = await gateway.call(
            reserve("", payload={"to": "token-1", "body": "Hello", **payload})
        )
        assert isinstance(result, Accepted), result
    ((_, document),) = google.messages
    message: dict[str, Any] = document["message"]
    return message


async def test_a_service_account_is_exchanged_once_for_all_gateways_of_a_process() -> None:
    google = Google()
    async with fcm(google) as (one, two):
        calls = [gateway.call(reserve("token-1")) for gateway in (one, two) for _ in range(10)]
        assert all(isinstance(each, Accepted) for each in await asyncio.gather(*calls))
    assert len(google.assertions) == 1
    assert {token for token, _ in google.messages} == {"Bearer t-1"}


async def test_an_assertion_is_what_google_documents() -> None:
    google = Google()
    async with fcm(google) as (gateway, _):
        await gateway.call(reserve("token-1"))
        audience = f"http://127.0.0.1:{google.port}/token"
    (assertion,) = google.assertions
    assert jwt.get_unverified_header(assertion) == {"alg": "RS256", "typ": "JWT", "kid": "key-1"}
    claims = jwt.decode(assertion, KEY.public_key(), algorithms=["RS256"], audience=audience)
    assert claims["iss"] == "push@shop.example"
    assert claims["scope"] == "https://www.googleapis.com/auth/firebase.messaging"
    assert claims["exp"] - claims["iat"] == 3_600


async def test_a_token_about_to_expire_is_renewed_and_used_if_that_fails() -> None:
    now, made = 0.0, deque[AccessToken | CallResult]()
    tokens = AccessTokens(seconds=lambda: now)
    exchanges = 0

    async def exchange() -> AccessToken | CallResult:
        nonlocal exchanges
        exchanges += 1
        return made.popleft()

    made.append(AccessToken("first", 3_600.0))
    assert await tokens.get("k", exchange) == "first"
    now = 3_600.0 - TOKEN_RENEWAL_SECONDS - 1
    assert (await tokens.get("k", exchange), exchanges) == ("first", 1)
    now += 1
    made.append(Throttled("later"))
    assert (await tokens.get("k", exchange), exchanges) == ("first", 2)
    made.append(AccessToken("second", 3_600.0))
    assert (await tokens.get("k", exchange), exchanges) == ("second", 3)
    now += 3_600.0
    made.append(Throttled("later"))
    assert await tokens.get("k", exchange) == Throttled("later")


async def test_a_caller_that_is_cancelled_does_not_cancel_the_others_token() -> None:
    tokens, may_end = AccessTokens(), asyncio.Event()

    async def exchange() -> AccessToken | CallResult:
        await may_end.wait()
        return AccessToken("t", 3_600.0)

    first, second = (asyncio.ensure_future(tokens.get("k", exchange)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    may_end.set()
    assert await second == "t"


async def test_a_revoked_token_is_replaced_by_a_new_one() -> None:
    google = Google()
    refused = {"error": {"status": "UNAUTHENTICATED", "message": "expired t-1"}}
    async with fcm(google) as (gateway, _):
        await gateway.call(reserve("token-1"))
        google.answers.append(http(401, json.dumps(refused).encode()))
        assert isinstance(await gateway.call(reserve("token-1")), Accepted)
        assert [token for token, _ in google.messages] == ["Bearer t-1", "Bearer t-1", "Bearer t-2"]
        # A second refusal in a row is the account's, and is not tried for ever.
        google.answers += [http(401, json.dumps(refused).encode())] * 2
        result = await gateway.call(reserve("token-1"))
    assert isinstance(result, Held)
    assert result.reason == "unauthorized"


async def test_without_a_token_no_message_is_sent() -> None:
    google = Google()
    async with fcm(google) as (gateway, _):
        denied = {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
        google.token_answers.append(http(400, json.dumps(denied).encode()))
        result = await gateway.call(reserve("token-1"))
        assert isinstance(result, Held)
        assert "Invalid JWT Signature." in result.detail
        google.token_answers.append(http(503, b"", "Retry-After: 9"))
        result = await gateway.call(reserve("token-1"))
        assert isinstance(result, Throttled)
        assert result.retry_after_seconds == 9.0
        google.token_answers.append(http(500, b"oops"))
        result = await gateway.call(reserve("token-1"))
        assert isinstance(result, AttemptError)
        assert (result.progress, result.code) == (Progress.NOT_SENT, "http_500")
        assert google.messages == []
        assert isinstance(await gateway.call(reserve("token-1")), Accepted)


async def test_a_token_server_that_is_away_is_not_sent() -> None:
    google = Google()
    google.port = closed_port()
    gateways = Gateways(Secrets(lambda: google.account), targets={"one": settings()})
    gateway = gateways.gateway("one", "fcm", f"http://127.0.0.1:{google.port}")
    result = await gateway.call(reserve("token-1"))
    assert isinstance(result, AttemptError)
    assert (result.progress, result.code) == (Progress.NOT_SENT, "connect_failed")
    await gateways.close()


async def test_the_check_exchanges_the_account_too() -> None:
    google = Google()
    async with fcm(google) as (gateway, _):
        assert isinstance(gateway, CheckableGateway)
        assert await gateway.check(5.0) is None
        assert google.messages[0][0] == "Bearer t-1"
        google.token_answers.append(http(400, b'{"error":"invalid_grant"}'))
    async with fcm(google) as (gateway, _):
        assert isinstance(gateway, CheckableGateway)
        finding = await gateway.check(5.0)
    assert isinstance(finding, CheckFailure)
    assert finding.step is CheckStep.CREDENTIAL


@pytest.mark.parametrize("text", ["not json", "{}", '{"client_email": "a"}'])
def test_a_credential_that_is_no_key_file_is_refused_without_showing_it(text: str) -> None:
    gateways = Gateways(Secrets(lambda: text), targets={"one": settings()})
    with pytest.raises(InvalidInput, match="key file") as refused:
        gateways.gateway("one", "fcm", "http://127.0.0.1")
    assert text not in str(refused.value)


async def test_a_message_carries_data_options_and_a_time_to_live() -> None:
    message = await sent(
        Google(),
        {
            "data": {"order": "42"},
            "android": {"priority": "high", "notification": {"channel_id": "orders"}},
            "apns": {"payload": {"aps": {"badge": 3}}},
            "ttlSeconds": 0,
        },
    )
    assert message["data"] == {"order": "42"}
    assert message["android"] == {
        "priority": "high", "ttl": "0s",
        "notification": {"channel_id": "orders", "tag": REFERENCE},
    }  # fmt: skip
    assert message["apns"] == {
        "headers": {"apns-collapse-id": REFERENCE, "apns-expiration": "0"},
        "payload": {"aps": {"badge": 3}},
    }
    assert message["webpush"] == {"headers": {"Topic": topic(REFERENCE), "TTL": "0"}}


async def test_a_targets_options_hold_unless_a_message_has_its_own() -> None:
    options = {"ttlSeconds": "600", "androidPriority": "high", "androidChannel": "news"}
    usual = await sent(Google(), {}, **options)
    assert (usual["android"]["ttl"], usual["android"]["priority"]) == ("600s", "high")
    assert usual["android"]["notification"] == {"tag": REFERENCE, "channel_id": "news"}
    own = await sent(
        Google(), {"ttlSeconds": 5, "android": {"notification": {"tag": "mine"}}}, **options
    )
    assert own["android"]["ttl"] == "5s"
    assert own["android"]["notification"] == {"tag": "mine", "channel_id": "news"}


@pytest.mark.parametrize(
    "payload",
    [{"data": {"order": 42}}, {"data": "x"}, {"android": []}, {"ttlSeconds": -1},
     {"ttlSeconds": "soon"}, {"ttlSeconds": 10**9}],
)  # fmt: skip
async def test_options_that_make_no_sense_are_rejected_before_any_traffic(
    payload: dict[str, Any],
) -> None:
    google = Google()
    async with fcm(google) as (gateway, _):
        result = await gateway.call(reserve("", payload={"to": "t", "body": "Hi", **payload}))
    assert isinstance(result, Rejected)
    assert result.reason == "invalid_message"
    assert google.messages == []
