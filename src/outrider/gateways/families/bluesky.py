"""The `bluesky` gateway type: a post of one account, written once under a key of its own.

A reservation becomes `POST {gatewayUrl}/xrpc/com.atproto.repo.putRecord`. The record's key follows
from our reference, so a repeat writes the same post again, for good. An app password is exchanged
for a session, which all gateways of a process share, because sessions are few: 30 in five minutes.

Sources: https://docs.bsky.app/docs/api/com-atproto-repo-put-record,
https://docs.bsky.app/docs/api/com-atproto-repo-get-record,
https://docs.bsky.app/docs/api/com-atproto-server-create-session,
https://atproto.com/specs/record-key, https://atproto.com/specs/tid,
https://docs.bsky.app/docs/advanced-guides/rate-limits.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from outrider.domain.call_results import (
    UNAUTHORIZED,
    AttemptError,
    CallResult,
    Held,
    Progress,
    Rejected,
    Throttled,
)
from outrider.domain.evidence import ABSENT, Evidence, LookedUp, LookUp, Match
from outrider.domain.ids import IdempotencyKey
from outrider.domain.reference_memory import ReferenceMemory
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.access_tokens import AccessToken, tokens_of
from outrider.gateways.content import Content
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.look_ups import NoAnswer, asked_one_by_one, fingerprint, found_by_reference
from outrider.gateways.provider import (
    REFERENCE_HEADER,
    ProviderGateway,
    ProviderReply,
    Reasons,
    Request,
    json_request,
)
from outrider.limits.gateways import LOOK_UP_SECONDS, TOKEN_EXCHANGE_SECONDS
from outrider.ports.gateway import LookUpQuestion
from outrider.ports.target_check import CheckFinding

COLLECTION: Final = "app.bsky.feed.post"
TEXT_MAX_BYTES: Final = 3_000
SESSION_SECONDS: Final = 3_600.0
"""Access tokens of Bluesky's own server are valid for two hours; another server's may be shorter,
which its refusal says."""
NOT_FOUND: Final = "RecordNotFound"
_LINK = re.compile(rb"https?://[^\s<>\"']*[^\s<>\"'.,;:!?)\]]")
_ALPHABET: Final = "234567abcdefghijklmnopqrstuvwxyz"
_YEAR_2024: Final = 1_704_067_200_000_000
_YEAR_MICROSECONDS: Final = 365 * 86_400 * 1_000_000

LOOK_UP: Final = LookUp(
    Match.REFERENCE,
    # A record is there once it is written.
    delay_seconds=10.0,
    retention_seconds=30 * 86_400.0,
    asks="`GET com.atproto.repo.getRecord?rkey=`",
    source="https://docs.bsky.app/docs/api/com-atproto-repo-get-record",
)
BLUESKY = GatewayType(
    "bluesky",
    Channel.SOCIAL,
    frozenset({"invalid_request", "invalid_message", "unauthorized"}),
    remembers=ReferenceMemory.parse("for_good"),
    evidence=Evidence(LOOK_UP),
)
OURS: Final[Reasons] = {
    "AuthMissing": "unauthorized",
    "AuthenticationRequired": "unauthorized",
    "AuthFactorTokenRequired": "unauthorized",
    "ExpiredToken": "unauthorized",
    "InvalidToken": "unauthorized",
    "AccountTakedown": "unauthorized",
    "AccountDeactivated": "unauthorized",
}
REASONS: Final[Reasons] = {"InvalidRecord": "invalid_message", "InvalidRequest": "invalid_request"}


class _Answer(msgspec.Struct):
    uri: str | None = None
    error: str | None = None
    message: str = ""


class _Session(msgspec.Struct, rename="camel"):
    access_jwt: str = ""
    error: str | None = None
    message: str = ""


_decoder = msgspec.json.Decoder(_Answer)
_session = msgspec.json.Decoder(_Session)


class BlueskyGateway(ProviderGateway):
    type = BLUESKY
    options = frozenset({"identifier", "language"})
    source = "https://docs.bsky.app/docs/api/com-atproto-repo-put-record"
    reasons = REASONS
    ours = OURS
    throttles = frozenset({"RateLimitExceeded"})
    addressed = False

    def __init__(self, target: Target) -> None:
        super().__init__(target, "appPassword")
        self._xrpc = base_url(target.url) / "xrpc"
        self._identifier = target.option("identifier")
        self._language = target.option("language", "")
        self._token = ""

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        text = f"{content.subject}\n\n{content.body}" if content.subject else content.body
        written = text.encode()
        if not content.body.strip() or len(written) > TEXT_MAX_BYTES:
            return Rejected("invalid_message", f"not 1 to {TEXT_MAX_BYTES} bytes of text")
        record: dict[str, Any] = {
            "$type": COLLECTION,
            "text": text,
            "createdAt": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        links = [_facet(found) for found in _LINK.finditer(written)]
        if links:
            record["facets"] = links
        if self._language:
            record["langs"] = [self._language]
        document = {"rkey": record_key(reference), "record": record, **self._place()}
        headers = {REFERENCE_HEADER: reference, **self._bearer()}
        return json_request(self._xrpc / "com.atproto.repo.putRecord", document, headers)

    def _place(self) -> dict[str, str]:
        return {"repo": self._identifier, "collection": COLLECTION}

    def _bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        return ProviderReply(answer.uri, answer.error, answer.message)

    def secret_values(self) -> Iterable[str]:
        return [*super().secret_values(), *filter(None, [self._token])]

    async def sign_in(self) -> CallResult | None:
        self._token = ""
        found = await tokens_of(self._client).get(self._key(), self._exchange)
        if not isinstance(found, str):
            return found
        self._token = found
        return None

    def sign_out(self) -> bool:
        if self._token:
            tokens_of(self._client).forget(self._key(), self._token)
        return bool(self._token)

    def _key(self) -> str:
        return fingerprint(self._xrpc, self._identifier, self.credential("appPassword"))

    async def _exchange(self) -> AccessToken | CallResult:
        account = {"identifier": self._identifier, "password": self.credential("appPassword")}
        answer = await self._client.ask(
            "POST",
            self._xrpc / "com.atproto.server.createSession",
            content=msgspec.json.encode(account),
            timeout_seconds=TOKEN_EXCHANGE_SECONDS,
        )
        if isinstance(answer, AttemptError):
            return AttemptError(Progress.NOT_SENT, answer.code, f"no session: {answer.detail}")
        try:
            found = _session.decode(answer.body)
        except (msgspec.MsgspecError, RecursionError):
            found = _Session()
        if 200 <= answer.status < 300 and found.access_jwt:
            return AccessToken(found.access_jwt, SESSION_SECONDS)
        said = self._detail(f"no session: {found.message or f'HTTP {answer.status}'}")
        if answer.status in (429, 503) or found.error in self.throttles:
            return Throttled(said, answer.retry_after_seconds)
        if answer.status in (401, 403) or self.ours.get(found.error or "") == UNAUTHORIZED:
            return Held(UNAUTHORIZED, said)
        return AttemptError(Progress.NOT_SENT, f"http_{answer.status}", said)

    @property
    def records(self) -> str:
        return fingerprint(self._xrpc, self._identifier)

    async def find(self, questions: Sequence[LookUpQuestion]) -> Mapping[IdempotencyKey, LookedUp]:
        refusal = await self.sign_in()
        if refusal is not None:
            raise NoAnswer("it gives us no session", getattr(refusal, "retry_after_seconds", None))
        return await asked_one_by_one(questions, self._found, self.unanswered)

    async def _found(self, question: LookUpQuestion) -> LookedUp:
        key = record_key(question.reference)
        url = (self._xrpc / "com.atproto.repo.getRecord").with_query(**self._place(), rkey=key)
        answer = await self._client.ask(
            "GET", url, headers=self._bearer(), timeout_seconds=LOOK_UP_SECONDS
        )
        if isinstance(answer, AttemptError):
            raise NoAnswer(answer.code)
        reply = self._said(answer)
        if answer.status == 400 and reply.code == NOT_FOUND:
            return ABSENT
        uri = reply.message_id or ""
        if not 200 <= answer.status < 300 or not uri.endswith(f"/{COLLECTION}/{key}"):
            raise NoAnswer(f"HTTP {answer.status}", answer.retry_after_seconds)
        return found_by_reference([uri])

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://docs.bsky.app/docs/api/com-atproto-server-get-session
        url = self._xrpc / "com.atproto.server.getSession"
        refusal = await self.sign_in()
        if refusal is not None:
            return self.not_signed_in(refusal, url, "appPassword")
        return await self.ask(Question(url, self._bearer(), "appPassword"), seconds)


def record_key(reference: str) -> str:
    """A timestamp identifier, the only kind of key that posts have: of a moment in 2024 and a clock
    that follow from the reference, so that no reader takes it for a time to come."""
    digest = int.from_bytes(hashlib.sha256(reference.encode()).digest(), "big")
    moment = _YEAR_2024 + digest % _YEAR_MICROSECONDS
    number = moment << 10 | (digest >> 128) & 0x3FF
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(60, -5, -5))


def _facet(found: "re.Match[bytes]") -> dict[str, Any]:
    """A link is one only if the record says where; places are counted in bytes."""
    feature = {"$type": "app.bsky.richtext.facet#link", "uri": found.group().decode()}
    place = {"byteStart": found.start(), "byteEnd": found.end()}
    return {"index": place, "features": [feature]}


FAMILY = Family(BLUESKY, BlueskyGateway)
