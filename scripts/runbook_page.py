"""Writes the runbook as a page of the console, so that links of alerts work without the project."""

import html
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
RUNBOOK = ROOT / "docs" / "howto" / "runbook.md"
PAGE = ROOT / "src" / "outrider" / "console" / "runbook.html"

HEAD = """<!doctype html>
<html lang="en" data-theme="system">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Runbook · Outrider</title>
<link rel="icon" href="/console/mark.svg" type="image/svg+xml">
<link rel="stylesheet" href="/console/css/tokens.css">
<link rel="stylesheet" href="/console/css/base.css">
<link rel="stylesheet" href="/console/css/runbook.css">
</head>
<body>
<!-- Generated from docs/howto/runbook.md by `make docs`; do not edit. -->
<main class="runbook">
"""
FOOT = "</main>\n</body>\n</html>\n"

INLINE = (
    (re.compile(r"`([^`]+)`"), r"<code>\1</code>"),
    (re.compile(r"\*\*([^*]+)\*\*"), r"<strong>\1</strong>"),
    (re.compile(r"\[([^\]]+)\]\([^)]+\)"), r"\1"),
)


def inline(text: str) -> str:
    """What the runbook uses of Markdown within a paragraph; links lead out of the console."""
    written = html.escape(text, quote=False)
    for pattern, replacement in INLINE:
        written = pattern.sub(replacement, written)
    return written


def block(text: str) -> str:
    if text.startswith("# "):
        return f"<h1>{inline(text[2:])}</h1>"
    if text.startswith("## "):
        code = text[3:].strip()
        return f'<h2 id="{code.lower()}">{code}</h2>'
    assert not text.startswith(("|", "-", "    ")), f"write it as a paragraph: {text}"
    return f"<p>{inline(' '.join(text.splitlines()))}</p>"


def page() -> str:
    blocks = re.split(r"\n\s*\n", RUNBOOK.read_text().strip())
    return HEAD + "\n".join(block(each) for each in blocks) + "\n" + FOOT


if __name__ == "__main__":
    PAGE.write_text(page())
