"""The report's page: hostile words stay words, figures are told as they are, nothing is loaded."""

from collections import Counter
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.domain.screen_policies import WaitsFor
from outrider.limits.phases import (
    REPORT_NAME_SHOWN_CHARACTERS,
    REPORT_REASONS_COUNTED_MAX,
    REPORT_REASONS_SHOWN_MAX,
)
from outrider.phases.report_charts import SEEN_AT_LEAST, WIDTH, pieces, widths
from outrider.phases.report_figures import OTHER_REASONS, Figures, LineTally, read_launch
from outrider.phases.report_page import HELD, POLICY, report_page, share
from outrider.ports.phases import ResultLine

HOSTILE = "</title><script>alert('1')</script><img src=x onerror=alert(2)>\"'&amp;"
OURS = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "div", "p", "h1", "h2",
    "bdi", "span", "section", "svg", "rect", "ul", "li", "strong", "br", "dl", "dt", "dd", "code",
    "footer", "b",
}  # fmt: skip


class Page(HTMLParser):
    """A page read back: its elements with their attributes, and its texts."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


def summary(word: str = "fine", **changes: Any) -> dict[str, Any]:
    accounting = {
        "intended": 100, "waiting": 0, "inDoubt": 0, "sent": 90, "failed": 4, "skipped": 6,
    }  # fmt: skip
    document: dict[str, Any] = {
        "run": {"status": word, "channel": word, "startedAt": "2026-12-01T09:00:02Z"},
        "accounting": accounting,
        "certificate": {
            "runId": word,
            "campaignId": word,
            "holds": True,
            "criteria": [{"name": word, "holds": True, "detail": word}],
            "accounting": accounting,
            "ledgerDigest": word,
            "issuedAt": word,
        },
    }
    return {**document, **changes}


def page(document: dict[str, Any], name: str = "Spring", tally: LineTally | None = None) -> Page:
    source = report_page(Figures(name, read_launch(document), tally or LineTally()))
    source.encode()
    return Page(source)


@settings(deadline=None)
@given(st.one_of(st.just(HOSTILE), st.text(st.characters(), max_size=60)))
def test_whatever_strangers_write_stays_text(word: str) -> None:
    tally = LineTally(1, {word: Counter({word: 1, "sent": 1})}, Counter({("failed", word): 4}))
    read = page(summary(word), word, tally)
    assert {tag for tag, _ in read.elements} <= OURS
    assert read.open == []
    names = {name for _, attributes in read.elements for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in ("src", "href", "style")}


def test_hostile_words_can_be_read_where_they_belong() -> None:
    read = page(summary(HOSTILE), HOSTILE, LineTally(by_reason=Counter({("failed", HOSTILE): 4})))
    assert read.texts.count(HOSTILE) >= 5
    assert f"Launch report: {HOSTILE}" in read.texts
    assert any(HOSTILE in (svg.get("aria-label") or "") for svg in read.of("svg"))


def test_a_page_loads_nothing_and_says_so() -> None:
    policies = [meta for meta in page(summary()).of("meta") if "http-equiv" in meta]
    assert policies == [{"http-equiv": "Content-Security-Policy", "content": POLICY}]
    assert POLICY == "default-src 'none'; style-src 'unsafe-inline'"
    source = report_page(Figures("Spring", read_launch(summary()), LineTally()))
    assert "http://" not in source
    assert "https://" not in source
    assert "url(" not in source


def test_both_colour_schemes_are_there() -> None:
    source = report_page(Figures("Spring", read_launch(summary()), LineTally()))
    assert "@media (prefers-color-scheme: dark)" in source


def test_the_identity_is_a_sentence_and_is_checked() -> None:
    true = {
        "intended": 2_000, "waiting": 0, "inDoubt": 1, "sent": 1_990, "failed": 4, "skipped": 5,
    }  # fmt: skip
    assert (
        "2,000 items intended = 0 waiting + 1 in doubt + 1,990 sent + 4 failed + 5 skipped:"
        " every item is accounted for." in page(summary(accounting=true)).text
    )
    nothing = dict.fromkeys(true, 0)
    false = page(summary(accounting={**nothing, "intended": 1})).text
    assert "1 item intended =" in false
    assert "this does not add up" in false


def test_criteria_are_ticked_or_crossed() -> None:
    document = summary()
    document["certificate"]["holds"] = False
    document["certificate"]["criteria"] = [
        {"name": "run_terminal", "holds": True, "detail": "the run is partial"},
        {"name": "accounting_adds_up", "holds": False, "detail": "1 = 2"},
    ]
    read = page(document)
    assert "✓Run terminal" in read.text
    assert "✗Accounting adds up" in read.text
    assert "Certificate does not hold" in read.text


def test_a_launch_without_items_still_has_a_page() -> None:
    nothing = dict.fromkeys(("intended", "waiting", "inDoubt", "sent", "failed", "skipped"), 0)
    read = page(summary(accounting=nothing, run={}))
    assert "There are no ledger lines." in read.text
    assert "Nothing failed and nothing was skipped." in read.text


def test_many_and_long_reasons_do_not_fill_the_page() -> None:
    reasons: Counter[tuple[str, str | None]] = Counter(
        {
            ("failed", f"{number}" + "x" * 500): number
            for number in range(1, REPORT_REASONS_SHOWN_MAX + 4)
        }
    )
    reasons["sent", "overdue"] = 9
    read = page(summary(), tally=LineTally(by_reason=reasons))
    assert len([svg for svg in read.of("svg") if svg.get("class") == "bar"]) == 12
    assert "3 rarer reasons with 6 items are not shown." in read.text
    assert all(len(text) <= REPORT_NAME_SHOWN_CHARACTERS for text in read.texts if "xxx" in text)
    assert "overdue" not in read.text


def test_reasons_beyond_so_many_are_counted_as_one() -> None:
    tally = LineTally()
    for number in range(REPORT_REASONS_COUNTED_MAX + 5):
        tally.count(
            [ResultLine("i", "r", "a", "sms", "t", "failed", f"reason {number}", 1, "", "")]
        )
    assert tally.by_reason["failed", OTHER_REASONS] == 5
    assert sum(reason.items for reason in tally.reasons) == tally.lines


def test_a_launch_of_several_runs_says_whose_certificate_it_shows() -> None:
    """U3"""
    read = page(summary(runs=3))
    assert "3 runs, each message once, as it ended" in read.text
    assert "It is of the latest of 3 runs" in read.text


@pytest.mark.parametrize("kind", WaitsFor)
def test_what_was_held_back_is_said_with_its_reason(kind: WaitsFor) -> None:
    given = summary()
    given["certificate"] |= {"held": [{"waitsFor": kind.value, "items": 1_200}]}
    assert f"1,200 recipients {HELD[kind]}." in page(given).text
    assert "Held for a while" not in page(summary()).text


def test_times_are_formatted_for_people_and_nonsense_is_unchanged() -> None:
    assert "started 2026-12-01 09:00:02 UTC" in page(summary()).text
    assert "started <b>" in page(summary(run={"startedAt": "<b>"})).text


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [
        (0, 0, "0 %"), (0, 9, "0 %"), (9, 9, "100 %"), (1, 2, "50.0 %"),
        (1, 10_000, "< 0.1 %"), (9_999, 10_000, "> 99.9 %"),
    ],
)  # fmt: skip
def test_a_share_is_all_or_nothing_only_where_it_is(part: int, whole: int, said: str) -> None:
    assert share(part, whole) == said


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=5))
def test_everything_on_the_page_is_visible_and_fits(counts: list[int]) -> None:
    named = {str(place): count for place, count in enumerate(counts)}
    shares = widths(named, max(sum(counts), 1))
    assert sum(shares.values()) <= WIDTH + 1e-6
    assert set(shares) == {name for name, count in named.items() if count}
    assert all(width >= SEEN_AT_LEAST for width in shares.values())


def test_a_bar_says_in_words_what_it_shows() -> None:
    counted = LineTally(
        4, {'"sms"': Counter(sent=3, failed=1)}, Counter({("failed", "unknown"): 1})
    )
    read = page(summary(), tally=counted)
    [svg] = [each for each in read.of("svg") if each.get("class") == "bar"][:1]
    assert (svg["role"], svg["aria-label"]) == ("img", '"sms": 3 sent · 1 failed')
    drawn = [rect["class"] for rect in read.of("rect")]
    assert "track sent failed track" in " ".join(name or "" for name in drawn)


def test_a_piece_of_a_bar_leaves_a_gap_to_the_next() -> None:
    first, second = pieces({"sent": 3, "failed": 1}, 4)
    assert (first["left"], first["width"]) == ("0.00", "748.00")
    assert (second["left"], second["width"]) == ("750.00", "250.00")
