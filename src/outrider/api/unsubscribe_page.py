"""The pages behind an unsubscribe link: one question, and its answers.

Each is self-contained: no script, no external resources, light or dark like the reader's system.
"""

import base64
import hashlib
from pathlib import Path
from typing import Final

from outrider.domain.unsubscribe import Unsubscription
from outrider.rendering.pages import pages_in

FOLDER: Final = Path(__file__).parent
_STYLE = (FOLDER / "unsubscribe.css").read_bytes()
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE).digest()).decode()

HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self';"
        " frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex, nofollow",
}


EVERYTHING: Final = "everything"
"""The name of the button for all messages, if a link is for one topic."""


def question(asked: Unsubscription) -> str:
    """A confirmation, because mail scanners follow every link and must not opt anyone out."""
    return _page("question", asked)


def done(asked: Unsubscription) -> str:
    return _page("done", asked)


def unknown() -> str:
    return _page("unknown")


def too_many() -> str:
    return _page("too_many")


def unavailable() -> str:
    return _page("unavailable")


def _page(name: str, asked: Unsubscription | None = None) -> str:
    known = {} if asked is None else {"address": asked.masked_address, "topic": asked.topic}
    return pages_in(FOLDER).render_template(
        "unsubscribe.html", page=name, everything=EVERYTHING, **known
    )
