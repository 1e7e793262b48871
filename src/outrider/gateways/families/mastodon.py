"""The `mastodon` gateway type: a post of one account, deduplicated by reference for an hour.

A reservation becomes `POST {gatewayUrl}/api/v1/statuses` under its own Idempotency-Key. A post is
public, so it has no recipient; a subject becomes the line shown before the content.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from cachetools import LRUCache
from yarl import URL

from outrider.domain.call_results import Rejected
from outrider.domain.evidence import (
    ABSENT,
    Evidence,
    Finding,
    LookedUp,
    LookUp,
    Match,
    unknown,
)
from outrider.domain.ids import IdempotencyKey
from outrider.domain.reference_memory import ReferenceMemory
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import INCOMPLETE, Content, content
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.look_ups import Document, NoAnswer, get_json
from outrider.gateways.provider import (
    REASONS_BY_STATUS,
    ProviderGateway,
    ProviderReply,
    Reasons,
    Request,
    form_request,
)
from outrider.limits.gateways import LOOK_UP_PAGES, LOOK_UP_TEXTS
from outrider.ports.gateway import LookUpQuestion
from outrider.ports.target_check import CheckFinding

MEMORY: Final = ReferenceMemory.parse("1h")

LOOK_UP: Final = LookUp(
    Match.CONTENT,
    # A post is in the account's list once it is created; a server may read from a replica.
    delay_seconds=60.0,
    # A post stays until its account deletes it. The list is read back to the time of the call.
    retention_seconds=7 * 86_400.0,
    asks="`GET /api/v1/accounts/{id}/statuses`, `GET /api/v1/statuses/{id}/source`",
    source="https://docs.joinmastodon.org/methods/accounts/#statuses",
    compares=("account", "time", "text"),
)

MASTODON = GatewayType(
    "mastodon",
    Channel.SOCIAL,
    frozenset({"invalid_request", "invalid_message", "unauthorized"}),
    remembers=MEMORY,
    evidence=Evidence(LOOK_UP),
)

# Mastodon has no error codes: the status is all there is, and 422 is about the text.
NO_CODES: Final[Reasons] = {}
BY_STATUS: Final = {**REASONS_BY_STATUS, 422: "invalid_message"}


class _Answer(msgspec.Struct):
    id: str | None = None
    error: str = ""


_decoder = msgspec.json.Decoder(_Answer)

STATUSES_PER_PAGE: Final = 10
"""A post has its whole account with it: more would not fit into an answer."""


class _Status(msgspec.Struct):
    id: str
    created_at: datetime


class _Source(msgspec.Struct):
    text: str
    spoiler_text: str = ""


_statuses = msgspec.json.Decoder(list[_Status])
_source = msgspec.json.Decoder(_Source)


class MastodonGateway(ProviderGateway):
    type = MASTODON
    options = frozenset({"visibility", "language"})
    source = "https://docs.joinmastodon.org/methods/statuses/#create"
    reasons = NO_CODES
    reasons_by_status = BY_STATUS
    addressed = False

    def __init__(self, target: Target) -> None:
        super().__init__(target, "accessToken")
        self._url = base_url(target.url) / "api" / "v1" / "statuses"
        self._read: LRUCache[str, _Source] = LRUCache(LOOK_UP_TEXTS)
        self._visibility = target.option("visibility", "public")
        self._language = target.option("language", "") or None

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        if not content.body.strip():
            return Rejected("invalid_message", "a post must not be empty")
        fields = {
            "status": content.body,
            "visibility": self._visibility,
            "spoiler_text": content.subject or None,
            "language": self._language,
        }
        headers = {"Idempotency-Key": reference, **self.bearer("accessToken")}
        return form_request(self._url, fields, headers)

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        return ProviderReply(answer.id, None, answer.error)

    async def find(self, questions: Sequence[LookUpQuestion]) -> Mapping[IdempotencyKey, LookedUp]:
        """The account's own posts of that time, compared with the text they were made of."""
        first = min(question.after for question in questions)
        last = max(question.before for question in questions)
        sources: dict[str, tuple[datetime, _Source | None]] = {}
        for status in await self._posted_since(first, questions[0].asked_at):
            if first <= status.created_at <= last:
                sources[status.id] = status.created_at, await self._source(status.id)
        answers = {}
        for question in questions:
            message = content(question, addressed=False)
            if message is None:
                answers[question.reference] = unknown(INCOMPLETE)
                continue
            meant = _words(message.body), _words(message.subject or "")
            same, other = list[str](), list[str]()
            for status_id, (at, source) in sources.items():
                if not question.after <= at <= question.before:
                    continue
                if source is None:
                    other.append(status_id)
                elif (_words(source.text), _words(source.spoiler_text)) == meant:
                    same.append(status_id)
            said = ABSENT
            if same:
                said = LookedUp(Finding.FOUND, tuple(same), "account, time and text agree")
            answers[question.reference] = said._replace(unclear_ids=tuple(other))
        return answers

    async def _source(self, status_id: str) -> _Source | None:
        """None if it cannot be read, now or later, and so not be compared."""
        try:
            found = self._read.get(status_id)
            if found is None:
                found = await self._get(self._url / status_id / "source", _source)
        except NoAnswer as error:
            if not error.is_final:
                raise
            return None
        self._read[status_id] = found
        return found

    async def _posted_since(self, first: datetime, asked_at: datetime) -> list[_Status]:
        accounts = self._url.parent / "accounts"
        account = await self._get(accounts / "verify_credentials", _decoder)
        if account.id is None:
            raise NoAnswer("no account")
        url = accounts / account.id / "statuses"
        query = {"limit": str(STATUSES_PER_PAGE), "exclude_reblogs": "true"}
        found: list[_Status] = []
        for _ in range(LOOK_UP_PAGES):
            page = await self._get(url.with_query(query), _statuses, asked_at)
            found += page
            if not page or max(each.created_at for each in page) < first - timedelta(seconds=1):
                return found
            query["max_id"] = page[-1].id
        raise NoAnswer(f"more than {LOOK_UP_PAGES} pages")

    async def _get(
        self, url: URL, decoder: msgspec.json.Decoder[Document], asked_at: datetime | None = None
    ) -> Document:
        return await get_json(
            self._client, url, decoder, self.bearer("accessToken"), asked_at=asked_at
        )

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://docs.joinmastodon.org/methods/accounts/#verify_credentials
        url = self._url.parent / "accounts" / "verify_credentials"
        # https://github.com/mastodon/mastodon/issues/14272: a token for write:statuses only.
        may_not_read = frozenset({"This action is outside the authorized scopes"})
        token = self.bearer("accessToken")
        question = Question(url, token, "accessToken", may_not_read=may_not_read)
        return await self.ask(question, seconds)


def _words(text: str) -> str:
    """Servers keep a post's words, and not always its line ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())


FAMILY = Family(MASTODON, MastodonGateway)
