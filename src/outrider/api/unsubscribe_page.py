"""The pages behind an unsubscribe link: one question, and the answers to it.

Each is whole in itself: no script, nothing from elsewhere, light or dark as the reader's system is.
"""

import base64
import hashlib
from html import escape
from typing import Final

from outrider.domain.unsubscribe import Unsubscription

STYLE: Final = """
:root {
  color-scheme: light dark;
  --ground: #f4f5f7; --card: #ffffff; --ink: #17202a; --soft: #55616f; --line: #d9dee5;
  --action: #1d5fbf; --action-ink: #ffffff; --action-over: #174d9c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #10151b; --card: #181f27; --ink: #e8edf2; --soft: #a3afbc; --line: #2d3742;
    --action: #7db0f7; --action-ink: #0c1420; --action-over: #a3c8fa;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 24px 16px;
  background: var(--ground); color: var(--ink);
  font: 17px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main {
  width: 100%; max-width: 30rem; padding: 36px 32px;
  background: var(--card); border: 1px solid var(--line); border-radius: 14px;
}
h1 { margin: 0 0 12px; font-size: 26px; line-height: 1.25; }
p { margin: 0 0 16px; overflow-wrap: anywhere; }
p:last-child { margin-bottom: 0; }
.note { color: var(--soft); font-size: 15px; }
form { margin: 24px 0; }
button {
  width: 100%; min-height: 48px; padding: 12px 20px; border: 0; border-radius: 10px;
  background: var(--action); color: var(--action-ink); font: inherit; font-weight: 600;
  cursor: pointer;
}
button.second { margin-top: 12px; background: transparent; color: var(--action);
  border: 1px solid var(--line); }
button.second:hover { background: var(--ground); }
button:hover { background: var(--action-over); }
button:focus-visible { outline: 3px solid var(--ink); outline-offset: 3px; }
@media (max-width: 420px) { main { padding: 28px 20px; } }
"""

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self';"
        " frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex, nofollow",
}


EVERYTHING: Final = "everything"
"""The name of the button for all messages, where a link is for one topic."""


def question(asked: Unsubscription) -> str:
    """Asked, because mail scanners follow every link, and must not opt anybody out by that."""
    unsubscribe, everything = "Unsubscribe", ""
    if asked.topic is not None:
        unsubscribe = f"Unsubscribe from {_topic(asked.topic)}"
        everything = (
            f'<button type="submit" class="second" name="{EVERYTHING}" value="yes">'
            "Unsubscribe from all messages</button>\n"
        )
    return _page(
        "Unsubscribe",
        f"<p>Stop sending these messages to {_address(asked.masked_address)}?</p>\n"
        # To this very page, whatever a proxy calls it.
        '<form method="post">\n'
        '<input type="hidden" name="List-Unsubscribe" value="One-Click">\n'
        f'<button type="submit">{unsubscribe}</button>\n{everything}</form>\n'
        '<p class="note">If you did not mean to come here, close this page: nothing has changed.'
        "</p>",
    )


def done(asked: Unsubscription) -> str:
    what = "these messages" if asked.topic is None else f"messages about {_topic(asked.topic)}"
    return _page(
        "You are unsubscribed",
        f"<p>{_address(asked.masked_address)} will no longer get {what}.</p>\n"
        '<p class="note">One that is already on its way may still arrive. You can close this page.'
        "</p>",
    )


def unknown() -> str:
    return _page(
        "This link does not work",
        "<p>Nothing was changed. The link may have been cut short on its way to you.</p>\n"
        '<p class="note">Open it again from the message itself, or copy it as a whole.</p>',
    )


def too_many() -> str:
    return _page(
        "Please wait a moment",
        "<p>Too many links that do not work came from your network. Nothing was changed.</p>\n"
        '<p class="note">Try again in a minute.</p>',
    )


def unavailable() -> str:
    return _page(
        "Please try again",
        "<p>This cannot be done at the moment. Nothing was changed.</p>\n"
        '<p class="note">Try again in a minute; your link keeps working.</p>',
    )


def _address(masked: str) -> str:
    return f"<strong><bdi>{escape(masked)}</bdi></strong>"


def _topic(name: str) -> str:
    return f"<bdi>{escape(name)}</bdi>"


def _page(title: str, content: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="robots" content="noindex, nofollow">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n{content}\n</main>\n</body>\n</html>\n"
    )
