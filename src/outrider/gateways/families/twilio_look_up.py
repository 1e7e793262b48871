"""Asking Twilio what it received: the account's messages or calls to one number.

Twilio has no field for our reference. Its lists can be filtered by date as well, but only by the
date of sending, which what is queued does not have yet; so they are filtered by number alone and
read back to the time of the call.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import msgspec
from yarl import URL

from outrider.domain.addresses import normalise_phone
from outrider.domain.evidence import ABSENT, Finding, LookedUp
from outrider.gateways.look_ups import NoAnswer, get_json
from outrider.limits.gateways import LOOK_UP_PAGE_ITEMS, LOOK_UP_PAGES
from outrider.ports.gateway import LookUpQuestion

if TYPE_CHECKING:
    from outrider.gateways.http_client import HttpClient

OUTBOUND = "outbound"
ORDER_SLACK = timedelta(days=1)
"""How far out of order of their creation a list may be."""


class Sent(msgspec.Struct, rename={"sender": "from"}):
    """A message or call of the account."""

    sid: str
    date_created: str
    to: str
    direction: str = ""
    sender: str | None = None
    body: str | None = None

    @property
    def at(self) -> datetime:
        try:
            at = parsedate_to_datetime(self.date_created)
        except ValueError as error:
            raise NoAnswer(f"not a time: {error}") from error
        return at if at.tzinfo else at.replace(tzinfo=UTC)


class _Page(msgspec.Struct):
    """Has one of the two lists, also when it is empty: an error has neither."""

    messages: list[Sent] | None = None
    calls: list[Sent] | None = None
    next_page_uri: str | None = None

    @property
    def sent(self) -> list[Sent]:
        found = self.calls if self.messages is None else self.messages
        if found is None:
            raise NoAnswer("not its documented answer: there is no list")
        return found


_decoder = msgspec.json.Decoder(_Page)


async def find(
    client: "HttpClient",
    url: URL,
    authorisation: str,
    number: str,
    question: LookUpQuestion,
    agrees: Callable[[Sent], bool],
) -> LookedUp:
    """`agrees`: whether one sent to that number at that time is the message."""
    page_url: URL | None = url.with_query(To=number, PageSize=LOOK_UP_PAGE_ITEMS)
    same: list[str] = []
    other: list[str] = []
    for _ in range(LOOK_UP_PAGES):
        if page_url is None:
            break
        page = await get_json(
            client, page_url, _decoder, {"Authorization": authorisation},
            asked_at=question.asked_at,
        )  # fmt: skip
        sent = page.sent
        for each in sent:
            if normalise_phone(each.to) != number:
                raise NoAnswer("it answered about another number")
            if question.after <= each.at <= question.before and each.direction.startswith(OUTBOUND):
                (same if agrees(each) else other).append(each.sid)
        is_past = bool(sent) and sent[-1].at < question.after - ORDER_SLACK
        # Always on this host: the page is named by its path.
        page_url = url.join(URL(page.next_page_uri)) if page.next_page_uri and not is_past else None
        if page_url is not None and page_url.origin() != url.origin():
            raise NoAnswer("its next page is at another host")
    if page_url is not None:
        raise NoAnswer(f"more than {LOOK_UP_PAGES} pages")
    said = ABSENT
    if same:
        said = LookedUp(Finding.FOUND, tuple(same), "recipient, time and content agree")
    return said._replace(unclear_ids=tuple(other))
