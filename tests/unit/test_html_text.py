"""The text that accompanies an HTML message."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.gateways.html_text import text_of

PAGE = """<!doctype html><html><head><title>Offer</title><style>p { color: red }</style></head>
<body><!-- nobody sees this --><h1>Hello &amp; welcome,
  Ada</h1><p>Read <a href="https://shop.example/a?b=1&amp;c=2">our   offer</a>.<br>Or call
<a href="tel:+447700900123">+447700900123</a>.</p>
<ul><li>One</li><li>Two, <b>bold</b></li></ul>
<table><tr><td>A</td><td>B</td></tr><tr><td>C</td><td>D</td></tr></table>
<img src="cat.png" alt="A cat"><pre>a  b
  c</pre><hr><p>1 < 2</p><script>if (a<b) { "</p>" }</script><a href="#top">Top</a></body></html>"""
TEXT = """Hello & welcome, Ada

Read our offer (https://shop.example/a?b=1&c=2).
Or call +447700900123.

- One
- Two, bold

A B
C D

A cat

a  b
  c

--------------------

1 < 2

Top"""


def test_a_page_reads_as_a_person_would_write_it() -> None:
    assert text_of(PAGE) == TEXT


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("", ""),
        ("<p></p><br><br>", ""),
        ("<p>Grüße</p><p>日本語 🎉</p>", "Grüße\n\n日本語 🎉"),
        ('<a href="https://a.example/">https://a.example/</a>', "https://a.example/"),
        ('<a href="https://a.example/"><img alt="Logo"></a>', "Logo (https://a.example/)"),
        ('<a href="https://a.example/"><img></a>', "https://a.example/"),
        ("<a href='javascript:alert(1)'>Click</a>", "Click"),
        ("<p>One<p>Two", "One\n\nTwo"),
        ("A<div>B</div>C", "A\nB\nC"),
        ("A<br><br><br>B", "A\n\nB"),
        ("<style>never closed", ""),
        ("a < b and <", "a < b and <"),
        ("&lt;b&gt; &#8364; &euro; &nosuch;", "<b> € € &nosuch;"),
    ],
)
def test_details(markup: str, text: str) -> None:
    assert text_of(markup) == text


@given(st.text(max_size=300))
def test_any_markup_gives_some_text(markup: str) -> None:
    text = text_of(markup)
    assert text == text.strip("\n")
    assert "\n\n\n" not in text


@pytest.mark.parametrize("piece", ["<a ", "<!--", "<a href=", "<p>", "&", "<a href=https:x>", "<"])
def test_hostile_markup_is_read_in_linear_time(piece: str) -> None:
    markup = piece * 50_000
    started = time.process_time()
    text_of(markup)
    # Read twice for each piece, it would take minutes.
    assert time.process_time() - started < 5
