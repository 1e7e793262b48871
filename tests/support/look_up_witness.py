"""A provider's records, served as the providers document them, by a witness that is no simulator.

It takes no messages: a test says what it has. It pages as it likes, shows things late, and answers
with whatever a test puts before the true answer; so a look-up is tried against somebody else's idea
of each list than the one that was built together with it.
"""

import asyncio
import html
import json
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from aiohttp import web

ACCOUNT_ID = "109"
LIST_PATHS = (
    "Messages.json", "Calls.json", "/emails", "/statuses", "/look-up", "/messages/outbound",
    "/REST/message", "/events", "/batches", "/sms/3/logs", "/Message/", "/conversations.history",
    "/com.atproto.repo.getRecord",
)  # fmt: skip


@dataclass(frozen=True)
class Record:
    """One message as its provider has it."""

    id: str
    to: str = ""
    text: str = ""
    subject: str = ""
    sender: str = "+15550001111"
    reference: str = ""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True)
class Reply:
    """What is answered instead of the truth."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


class NoRecord(Exception):
    """As Bluesky says it."""


class LookUpWitness:
    def __init__(self, *records: Record) -> None:
        self.records = list(records)
        self.page_items = 2
        """However many are asked for."""
        self.empty_page_first = False
        """A first page with nothing on it, and more after it."""
        self.clock_off = timedelta()
        self.late = asyncio.Event()
        self.late.set()
        self.replies: deque[Reply] = deque()
        self.always: Reply | None = None
        self.unreadable: set[str] = set()
        """Whose whole text is not given out."""
        self.shows_everything = False
        """It ignores the recipient that it is asked for."""
        self.is_cut_off = False
        """It has more, and does not say where."""
        self.shows_metadata = True
        self.asked: list[str] = []
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        assert self._runner is not None
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(web.Server(self._serve, access_log=None))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        assert self._runner is not None
        self.late.set()
        await self._runner.cleanup()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        await self.late.wait()
        date = format_datetime(datetime.now(UTC) + self.clock_off, usegmt=True)
        is_list = request.path.endswith(LIST_PATHS)
        reply = self.always or (self.replies.popleft() if is_list and self.replies else None)
        if reply is not None:
            return web.Response(
                status=reply.status, body=reply.body, content_type=reply.content_type,
                headers={"Date": date, **reply.headers},
            )  # fmt: skip
        try:
            shown = self._shown(request.path, request.query, await request.read())
        except NoRecord:
            return web.json_response({"error": "RecordNotFound", "message": "no"}, status=400)
        except LookupError:
            return web.json_response({"error": "not found"}, status=404)
        return web.json_response(shown, headers={"Date": date})

    def _shown(self, path: str, query: Any, body: bytes) -> object:
        newest = sorted(self.records, key=lambda each: each.at, reverse=True)
        match path.strip("/").split("/"):
            case ["2010-04-01", "Accounts", _, resource]:
                return self._twilio(path, resource.removesuffix(".json").lower(), query, newest)
            case ["emails"]:
                return self._resend(query, newest)
            case ["emails", email_id]:
                found = self._whole(email_id)
                return {"id": email_id, "text": found.text, "html": None}
            case ["api", "v1", "accounts", "verify_credentials"]:
                return {"id": ACCOUNT_ID}
            case ["api", "v1", "accounts", _, "statuses"]:
                page = self._page(newest, query.get("max_id"))
                return [{"id": each.id, "created_at": _iso(each.at)} for each in page]
            case ["api", "v1", "statuses", status_id, "source"]:
                found = self._whole(status_id)
                return {"id": found.id, "text": found.text, "spoiler_text": found.subject}
            case ["messages", "outbound"]:
                return self._postmark(query, newest)
            case ["v3", "REST", "message"]:
                return self._mailjet(query, newest)
            case ["v3", _, "events"]:
                return self._mailgun(path, query, newest)
            case ["xms", "v1", _, "batches"]:
                return self._sinch(query, newest)
            case ["sms", "3", "logs"]:
                same = self._of(query["messageId"], newest)
                return {"results": [_infobip(each) for each in same]}
            case ["v1", "Account", _, "Message"]:
                return self._plivo(path, query, newest)
            case ["api", "conversations.history"]:
                return self._slack(query, newest)
            case ["xrpc", "com.atproto.server.createSession"]:
                return {"accessJwt": "a-token", "refreshJwt": "r", "did": "did:plc:1"}
            case ["xrpc", "com.atproto.repo.getRecord"]:
                same = [
                    each for each in newest if self.shows_everything or each.id == query["rkey"]
                ]
                if not same:
                    raise NoRecord
                key = same[0].id
                return {
                    "uri": f"at://did:plc:1/{query['collection']}/{key}",
                    "cid": "b",
                    "value": {},
                }
            case ["look-up"]:
                asked = json.loads(body)["referenceIds"]
                found_ones = [each for each in newest if each.reference in asked]
                return {
                    "messages": [
                        {"referenceId": each.reference, "gatewayMessageId": each.id}
                        for each in found_ones
                    ]
                }
            case _:
                raise LookupError(path)

    def _of(self, reference: str, newest: list[Record]) -> list[Record]:
        return [each for each in newest if self.shows_everything or each.reference == reference]

    def _sinch(self, query: Any, newest: list[Record]) -> object:
        since = datetime.fromisoformat(query["start_date"])
        same = [each for each in self._of(query["client_reference"], newest) if each.at >= since]
        shown = [
            {
                "id": each.id, "to": [each.to.lstrip("+")], "body": each.text, "type": "mt_text",
                "client_reference": each.reference, "created_at": _iso(each.at),
            }
            for each in same
        ]  # fmt: skip
        listed = [] if self.empty_page_first else shown
        return {"count": len(same), "page": 0, "page_size": 30, "batches": listed}

    def _plivo(self, path: str, query: Any, newest: list[Record]) -> object:
        number = query["to_number"]
        same = [each for each in newest if self.shows_everything or each.to.lstrip("+") == number]
        start = int(query.get("offset", "0"))
        page = same[start : start + self.page_items]
        following = urlencode({**query, "offset": start + self.page_items})
        more = len(same) > start + self.page_items
        return {
            "api_id": "x",
            "meta": {"limit": 2, "next": f"{path}?{following}" if more else None, "previous": None},
            "objects": [
                {
                    "message_uuid": each.id, "to_number": each.to.lstrip("+"),
                    "from_number": each.sender.lstrip("+"), "message_direction": "outbound",
                    "message_state": "sent", "units": 1,
                    "message_time": each.at.strftime("%Y-%m-%d %H:%M:%S.%f+00:00"),
                }
                for each in page
            ],
        }  # fmt: skip

    def _slack(self, query: Any, newest: list[Record]) -> object:
        first, last = float(query["oldest"]), float(query["latest"])
        same = [each for each in newest if first <= each.at.timestamp() <= last]
        page = self._page(same, query.get("cursor"))
        more = bool(page) and page[-1] is not same[-1]
        cursor = page[-1].id if more and not self.is_cut_off else ""
        return {
            "ok": True,
            "has_more": more,
            "messages": [_of_slack(each, self.shows_metadata) for each in page],
            "response_metadata": {"next_cursor": cursor},
        }

    def _whole(self, record_id: str) -> Record:
        for each in self.records:
            if each.id == record_id and record_id not in self.unreadable:
                return each
        raise LookupError(record_id)

    def _page(self, newest: list[Record], after: str | None) -> list[Record]:
        ids = [each.id for each in newest]
        start = 0 if after is None else ids.index(after) + 1
        return newest[start : start + self.page_items]

    def _twilio(self, path: str, name: str, query: Any, newest: list[Record]) -> object:
        same = [each for each in newest if self.shows_everything or each.to == query["To"]]
        token = query.get("PageToken")
        if token is None and self.empty_page_first:
            page, last = [], "start"
        else:
            page = self._page(same, None if token in (None, "start") else token)
            last = page[-1].id if page and page[-1] is not same[-1] else ""
        more = f"{path}?{urlencode({'To': query['To'], 'PageToken': last})}" if last else None
        return {
            name: [
                {
                    "sid": each.id, "to": each.to, "from": each.sender, "body": each.text,
                    "direction": "outbound-api", "date_created": format_datetime(each.at),
                    "num_media": "0", "price": None,
                }
                for each in page
            ],
            "next_page_uri": more, "page_size": self.page_items, "uri": path,
        }  # fmt: skip

    def _postmark(self, query: Any, newest: list[Record]) -> object:
        wanted = query["metadata_outrider_reference"]
        same = [each for each in newest if self.shows_everything or each.reference == wanted]
        shown = [
            {
                "Tag": None, "MessageID": each.id, "To": [{"Email": each.to, "Name": None}],
                "Recipients": [each.to], "ReceivedAt": each.at.isoformat(), "Status": "Sent",
                "Metadata": {"outrider_reference": each.reference}, "MessageStream": "outbound",
            }
            for each in same
        ]  # fmt: skip
        return {"TotalCount": len(same), "Messages": [] if self.empty_page_first else shown}

    def _mailjet(self, query: Any, newest: list[Record]) -> object:
        wanted, after = query["CustomID"], int(query["FromTS"])
        same = [
            each for each in newest
            if self.shows_everything or (each.reference == wanted and each.at.timestamp() >= after)
        ]  # fmt: skip
        shown = [
            {
                "ID": int(each.id), "ArrivedAt": _iso(each.at), "CustomID": each.reference,
                "Status": "sent", "UUID": "",
            }
            for each in same
        ]  # fmt: skip
        return {"Count": len(same), "Data": [] if self.empty_page_first else shown, "Total": 9}

    def _mailgun(self, path: str, query: Any, newest: list[Record]) -> object:
        oldest = list(reversed(newest))
        same = [each for each in oldest if self.shows_everything or each.to == query["recipient"]]
        begin, end = float(query["begin"]), float(query["end"])
        same = [each for each in same if begin <= each.at.timestamp() <= end]
        start = int(query.get("p", "0"))
        page = same[start : start + self.page_items]
        items = [
            {
                "id": f"e{each.id}", "event": "accepted", "recipient": each.to,
                "timestamp": each.at.timestamp(), "tags": [],
                "message": {"headers": {"message-id": each.id, "subject": each.subject}},
                "user-variables": {"outrider_reference": each.reference},
            }
            for each in page
        ]  # fmt: skip
        following = urlencode({**query, "p": start + self.page_items})
        return {"items": items, "paging": {"next": f"{self.url}{path}?{following}", "first": ""}}

    def _resend(self, query: Any, newest: list[Record]) -> object:
        if self.empty_page_first:
            return {"object": "list", "has_more": True, "data": []}
        page = self._page(newest, query.get("after"))
        more = bool(page) and page[-1] is not newest[-1]
        return {
            "object": "list",
            "has_more": more,
            "data": [
                {
                    "id": each.id, "to": [each.to], "from": each.sender, "subject": each.subject,
                    # As its documentation shows it, with a space and a short offset.
                    "created_at": str(each.at).replace("+00:00", "+00"), "bcc": None, "cc": None,
                    "last_event": "delivered", "scheduled_at": None,
                }
                for each in page
            ],
        }  # fmt: skip


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _infobip(record: Record) -> dict[str, object]:
    status = {"groupId": 1, "groupName": "PENDING", "id": 26, "name": "PENDING_ACCEPTED"}
    return {
        "messageId": record.reference, "destination": record.to.lstrip("+"), "status": status,
        "sentAt": _iso(record.at), "content": {"text": record.text},
    }  # fmt: skip


def _of_slack(record: Record, has_metadata: bool) -> dict[str, object]:
    shown: dict[str, object] = {
        "type": "message", "ts": record.id, "bot_id": "B1", "text": html.escape(record.text),
    }  # fmt: skip
    if has_metadata and record.reference:
        payload = {"reference": record.reference}
        shown["metadata"] = {"event_type": "outrider_message", "event_payload": payload}
    return shown
