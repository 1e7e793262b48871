"""Every family's table of answers as rows: what each proves, what it is about, and its source.

The tables themselves are in the families' files; docs/reference/answers.md is written from them.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from outrider.domain.blame import Party, Proof
from outrider.domain.call_results import INVALID_ANSWER, TARGET_THROTTLED, UNAUTHORIZED
from outrider.gateways import json_family
from outrider.gateways.directory import FAMILIES
from outrider.gateways.provider import (
    REFUSES_THE_REQUEST,
    REFUSES_US,
    THROTTLED,
    ProviderGateway,
    Reasons,
)
from outrider.gateways.smtp_answers import BEFORE_THE_RECIPIENT, RULES, AnswerRule

PROVIDERS: Final[tuple[type[ProviderGateway], ...]] = tuple(
    family.make
    for family in FAMILIES.values()
    if isinstance(family.make, type) and issubclass(family.make, ProviderGateway)
)
HTTP: Final = "RFC 9110"
CONTRACT: Final = "contract 001"
HEADER: Final = "| answer | proves | is about | reason | source |\n|---|---|---|---|---|\n"


class Row(NamedTuple):
    answer: str
    proves: Proof
    about: Party | None
    reason: str
    source: str

    def line(self) -> str:
        about = "" if self.about is None else self.about.value
        cells = (self.answer, self.proves.value, about, self.reason, self.source)
        return f"| {' | '.join(cells)} |\n"


def smtp_rows() -> Iterator[Row]:
    rfc = "RFC 5321, 4.2.1"
    yield Row("2xx at end of data", Proof.TAKEN, Party.ITEM, "", rfc)
    for rule in RULES:
        reason = rule.reason or TARGET_THROTTLED
        yield Row(_reply(rule), Proof.NOTHING_TAKEN, rule.about, reason, rule.source)
    yield Row("anything else, once the text has left", Proof.NEITHER, None, INVALID_ANSWER, rfc)


def _reply(rule: AnswerRule) -> str:
    codes = ", ".join(map(str, sorted(rule.codes))) or f"{rule.kind}xx"
    enhanced = " or ".join(f"{rule.kind}.{each}" if each else "none" for each in rule.enhanced)
    steps = "the recipient or later"
    if rule.steps >= BEFORE_THE_RECIPIENT:
        steps = "any step"
    elif len(rule.steps) <= 2:
        steps = ", ".join(sorted(step.value for step in rule.steps))
    words = "" if rule.words is None else ", by its words"
    return f"{codes}{f' with {enhanced}' if enhanced else ''} at {steps}{words}"


def json_rows() -> Iterator[Row]:
    nothing, statuses = Proof.NOTHING_TAKEN, _statuses(json_family.THROTTLED)
    yield Row('2xx, `"status": "accepted"`', Proof.TAKEN, Party.ITEM, "", CONTRACT)
    yield Row('`"status": "rejected"`, a reason', nothing, Party.ITEM, "its own", CONTRACT)
    yield Row('`"status": "rejected"`, none', nothing, Party.ITEM, INVALID_ANSWER, CONTRACT)
    yield Row(statuses, nothing, Party.TARGET, TARGET_THROTTLED, HTTP)
    yield Row(_statuses(json_family.REFUSES_US), nothing, Party.US, UNAUTHORIZED, HTTP)
    yield Row("any other 2xx", Proof.NEITHER, None, INVALID_ANSWER, CONTRACT)
    yield Row("any other status", Proof.NEITHER, None, "`http_` and the status", CONTRACT)


def provider_rows(family: type[ProviderGateway]) -> Iterator[Row]:
    source, nothing = family.source, Proof.NOTHING_TAKEN
    yield Row("2xx with a message's id", Proof.TAKEN, Party.ITEM, "", source)
    yield Row("2xx without one", Proof.NEITHER, None, INVALID_ANSWER, source)
    yield Row(_statuses(THROTTLED), nothing, Party.TARGET, TARGET_THROTTLED, HTTP)
    if family.throttles:
        codes = _codes(family.throttles)
        yield Row(codes, nothing, Party.TARGET, TARGET_THROTTLED, source)
    yield from _by_reason(family.ours, Party.US, source)
    yield from _by_reason(family.ours_for_some, Party.US, f"{source}; these wait alone")
    yield from _by_reason(family.reasons, Party.ITEM, source)
    if family.unfinished:
        yield Row(_codes(family.unfinished), Proof.NEITHER, None, "its own", source)
    yield Row(_statuses(REFUSES_US), nothing, Party.US, UNAUTHORIZED, HTTP)
    own = "with the provider's own error"
    for status, reason in sorted(family.reasons_by_status.items()):
        yield Row(f"{status} {own}", nothing, Party.ITEM, reason, source)
    others = _statuses(REFUSES_THE_REQUEST - family.reasons_by_status.keys())
    yield Row(f"{others} {own}", nothing, Party.ITEM, "`http_` and the status", source)
    yield Row("any other status", Proof.NEITHER, None, "`http_` and the status", HTTP)


def _by_reason(codes: Reasons, about: Party, source: str) -> Iterator[Row]:
    for reason in sorted(set(codes.values())):
        named = [code for code in codes if codes[code] == reason]
        yield Row(_codes(named), Proof.NOTHING_TAKEN, about, reason, source)


def _codes(codes: "frozenset[str | int] | list[str | int]") -> str:
    return ", ".join(f"`{code}`" for code in sorted(codes, key=str))


def _statuses(statuses: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(statuses)))


def tables() -> str:
    """All of them, as docs/reference/answers.md shows them."""
    sections = [("`smtp`", smtp_rows()), ("`sms`, `push`", json_rows())]
    sections += [(f"`{family.type.name}`", provider_rows(family)) for family in PROVIDERS]
    return "\n".join(
        f"## {name}\n\n{HEADER}{''.join(row.line() for row in rows)}" for name, rows in sections
    )


if __name__ == "__main__":
    print(tables(), end="")
