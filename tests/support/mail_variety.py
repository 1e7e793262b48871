"""Mails of every kind, each made from its number: names, scripts, emoji, long lines, files."""

import random
from typing import NamedTuple

from outrider.domain.message_content import Enclosure

SCRIPTS = (
    "Hello Ada, how are you today?",
    "Schöne Grüße aus Köln, Ærøskøbing und Łódź",
    "Καλημέρα κόσμε, τι κάνεις;",
    "Здравствуй, мир! Как дела?",
    "こんにちは世界、お元気ですか。",
    "你好，世界！今天天气很好。",
    "안녕하세요 세계",
    "مرحبا بالعالم، كيف حالك؟",
    "שלום עולם",
    "नमस्ते दुनिया",
    "สวัสดีชาวโลก",
    "Zażółć gęślą jaźń — naïve café, “quoted”",
    "🎉👩‍👩‍👧‍👦🏳️‍🌈 e\u0301 ﷺ 𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "=?utf-8?q?looks_encoded?= and =3D =C3=BC",
)
LINES = (
    ".",
    "..two dots",
    ".dot first",
    "From the beginning",
    ">From quoted",
    "trailing spaces   ",
    "trailing tab\t",
    "\tindented",
    "",
    "QUIT",
    "--=_outrider_",
    "a\x00b\x07c",
    "MAIL FROM:<eve@evil.example>",
)
LOCALS = (
    "ada",
    "ada+tag",
    "a.b-c_d",
    "O'Hara",
    '"john smith"',
    '"a\\"b@c"',
    "josé",
    "δοκιμή",
    "用户",
)
DOMAINS = ("example.test", "xn--hxajbheg2az3al.example", "a.b.c.example")
NAMES = ("quote.pdf", "Angebot für Zoë.pdf", "見積書.pdf", "semi;colon'%.txt", "x" * 180 + ".bin")


class VariedMail(NamedTuple):
    reference: str
    address: str
    subject: str
    body: str
    enclosures: tuple[Enclosure, ...]

    @property
    def is_html(self) -> bool:
        return self.body.startswith("<")


def varied_mail(number: int) -> VariedMail:
    chance = random.Random(number)
    body = _body(chance)
    if chance.random() < 0.4:
        link = f'<a href="https://shop.example/{number}?a=1&amp;b=2">{chance.choice(SCRIPTS)}</a>'
        body = f"<p>{body}</p>\n{link}"
    files = tuple(_file(chance) for _ in range(chance.choice((0, 0, 0, 1, 2))))
    local = chance.choice(LOCALS)
    if not local.startswith('"'):
        local += str(number)
    return VariedMail(
        f"{number:064x}", f"{local}@{chance.choice(DOMAINS)}", _subject(chance), body, files
    )


def _body(chance: random.Random) -> str:
    lines = [
        chance.choice((*SCRIPTS, *LINES)) * chance.choice((1, 1, 1, 3))
        for _ in range(chance.randint(1, 12))
    ]
    if chance.random() < 0.2:
        lines.append(chance.choice(("x", "é", "長", "🎉", "word ")) * chance.randint(998, 6_000))
    return chance.choice(("\n", "\r\n", "\r")).join(lines)


def _subject(chance: random.Random) -> str:
    subject = " ".join(chance.choice(SCRIPTS) for _ in range(chance.randint(1, 4)))
    return chance.choice((subject, subject, f"  {subject}  ", "x" * 300, "a  b", ""))


def _file(chance: random.Random) -> Enclosure:
    content = chance.randbytes(chance.choice((0, 1, 100, 5_000)))
    return Enclosure(chance.choice(NAMES), "application/octet-stream", content)
