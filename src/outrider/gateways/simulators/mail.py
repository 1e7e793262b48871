"""What the simulated e-mail providers share."""

from collections.abc import Mapping
from typing import Any

from outrider.gateways.families.mail_provider import basic
from outrider.gateways.sandbox_protocol import Post


def is_refused(to: str) -> bool:
    return "@" not in to or to.startswith("reject")


def nested(document: Any, *path: str | int) -> Any:
    """What is there, or None."""
    for each in path:
        if isinstance(document, Mapping) and isinstance(each, str):
            document = document.get(each)
        elif isinstance(document, list) and isinstance(each, int) and len(document) > each:
            document = document[each]
        else:
            return None
    return document


def string(document: Any, *path: str | int) -> str:
    found = nested(document, *path)
    return found if isinstance(found, str) else ""


def password_post(url: str, body: bytes, secret: str) -> Post:
    headers = {"content-type": "application/json", "authorization": basic(secret.split()[0])}
    return Post(url, body, headers)
