"""What the simulator says about the messages it received: the providers' own lists, and a record by
reference for protocols that have none. Lists may lag, as a provider's may, by `lookUpDelayMs`.
"""

from collections.abc import Sequence
from datetime import datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qs

import msgspec

from outrider.gateways.sandbox_protocol import Kept, Query
from outrider.gateways.simulators import SIMULATORS

PAGE_ITEMS_DEFAULT = 50


def kept(
    protocol: str, reference: str, message_id: str, to: str, at: datetime, body: bytes
) -> Kept:
    """Reads what its provider would show about it later."""
    match protocol:
        case "twilio_sms" | "twilio_voice":
            form = _form(body)
            return Kept(
                protocol, reference, message_id, to, at, form.get("From", ""),
                text=form.get("Body", ""),
            )  # fmt: skip
        case "mastodon":
            form = _form(body)
            return Kept(
                protocol, reference, message_id, to, at, subject=form.get("spoiler_text", ""),
                text=form.get("status", ""),
            )  # fmt: skip
        case "resend":
            document: dict[str, Any] = msgspec.json.decode(body)
            return Kept(
                protocol, reference, message_id, to, at, document.get("from", ""),
                document.get("subject", ""), document.get("text", ""), document.get("html"),
            )  # fmt: skip
        case _:
            plain = Kept(protocol, reference, message_id, to, at)
            simulator = SIMULATORS.get(protocol)
            return (
                plain
                if simulator is None or simulator.keep is None
                else simulator.keep(plain, body)
            )


def _form(body: bytes) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(body.decode("latin-1")).items()}


def listed(
    method: str, path: str, query: Query, body: bytes, messages: Sequence[Kept]
) -> object | None:
    """The provider's answer to a question about what it received; None: this is not such a
    question."""
    newest = sorted(messages, key=lambda each: each.at, reverse=True)
    for protocol, simulator in SIMULATORS.items():
        if simulator.listed is not None:
            own = [each for each in newest if each.protocol == protocol]
            shown = simulator.listed(method, path, query, body, own)
            if shown is not None:
                return shown
    if method != "GET":
        return None
    match path.strip("/").split("/"):
        case ["2010-04-01", "Accounts", _, "Messages.json"] if "To" in query:
            return _twilio(path, query, newest, "twilio_sms", "messages")
        case ["2010-04-01", "Accounts", _, "Calls.json"] if "To" in query:
            return _twilio(path, query, newest, "twilio_voice", "calls")
        case ["emails"]:
            return _resend(query, newest)
        case ["emails", email_id]:
            found = [each for each in newest if each.message_id == email_id]
            return {"id": email_id, "html": found[0].html, "text": found[0].text} if found else None
        case ["api", "v1", "accounts", _, "statuses"]:
            return _mastodon(query, newest)
        case ["api", "v1", "statuses", status_id, "source"]:
            posts = [each for each in newest if each.message_id == status_id]
            shown = {"id": status_id}
            return (
                shown | {"text": posts[0].text, "spoiler_text": posts[0].subject} if posts else None
            )
        case _:
            return None


def by_reference(asked: bytes, messages: Sequence[Kept]) -> object:
    """For a target's own `look_up_url`."""
    references = set(msgspec.json.decode(asked, type=dict[str, list[str]]).get("referenceIds", []))
    found = {each.reference: each.message_id for each in messages if each.reference in references}
    return {
        "messages": [
            {"referenceId": reference, "gatewayMessageId": message_id}
            for reference, message_id in found.items()
        ]
    }


def _twilio(path: str, query: Query, newest: Sequence[Kept], protocol: str, name: str) -> object:
    same = [each for each in newest if each.protocol == protocol and each.to == query["To"]]
    size, page = int(query.get("PageSize", PAGE_ITEMS_DEFAULT)), int(query.get("Page", 0))
    shown = same[page * size : (page + 1) * size]
    more = len(same) > (page + 1) * size
    to = query["To"].replace("+", "%2B")
    return {
        name: [
            {
                "sid": each.message_id, "to": each.to, "from": each.sender, "body": each.text,
                "direction": "outbound-api", "status": "sent",
                "date_created": format_datetime(each.at), "date_sent": None,
            }
            for each in shown
        ],
        "page": page,
        "page_size": size,
        "next_page_uri": f"{path}?To={to}&PageSize={size}&Page={page + 1}" if more else None,
    }  # fmt: skip


def _resend(query: Query, newest: Sequence[Kept]) -> object:
    same = [each for each in newest if each.protocol == "resend"]
    after = query.get("after")
    if after is not None:
        places = [place for place, each in enumerate(same) if each.message_id == after]
        same = same[places[0] + 1 :] if places else []
    most = int(query.get("limit", "20"))
    return {
        "object": "list",
        "has_more": len(same) > most,
        "data": [
            {
                "id": each.message_id, "to": [each.to], "from": each.sender,
                "subject": each.subject, "created_at": each.at.isoformat(),
                "last_event": "delivered",
            }
            for each in same[:most]
        ],
    }  # fmt: skip


def _mastodon(query: Query, newest: Sequence[Kept]) -> object:
    same = [each for each in newest if each.protocol == "mastodon"]
    last = query.get("max_id")
    if last is not None:
        places = [place for place, each in enumerate(same) if each.message_id == last]
        same = same[places[0] + 1 :] if places else []
    shown = same[: int(query.get("limit", "20"))]
    return [
        {"id": each.message_id, "created_at": each.at.isoformat(), "content": f"<p>{each.text}</p>"}
        for each in shown
    ]
