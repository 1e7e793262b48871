"""The report as one page of HTML that needs nothing else: figures go in, a document comes out.

Names, ids and reasons are strangers' words: each goes through `said` or `plain`, and stays text.
"""

from collections.abc import Iterable
from datetime import datetime

from outrider.domain.times import rfc3339
from outrider.phases.report_charts import stacked_bar, swatch
from outrider.phases.report_figures import CertificateLine, Criterion, Figures, Reason, Tally, Terms
from outrider.phases.report_style import STYLE
from outrider.phases.report_words import plain, said
from outrider.settings import REPORT_NAME_SHOWN_CHARACTERS, REPORT_REASONS_SHOWN_MAX

POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def report_page(figures: Figures) -> str:
    launch = figures.launch
    parts = (
        _header(figures),
        _tiles(launch.accounting),
        _accounting(launch.accounting),
        _channels(figures.tally),
        _reasons(launch.reasons),
        _certificate(launch.certificate),
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Launch report: {plain(figures.campaign_name)}</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{''.join(parts)}"
        "<footer>results.csv has every ledger line behind these figures, certificate.json the"
        " proof as a document.</footer>\n</main>\n</body>\n</html>\n"
    )


def share(part: int, whole: int) -> str:
    """A percentage that says 0 and 100 only where it is nothing or all."""
    if whole <= 0 or part <= 0:
        return "0 %"
    if part >= whole:
        return "100 %"
    percent = part / whole * 100
    if percent < 0.1:
        return "< 0.1 %"
    return "> 99.9 %" if percent > 99.9 else f"{percent:.1f} %"


def _terms(terms: Terms) -> dict[str, int]:
    return {
        "sent": terms.sent,
        "failed": terms.failed,
        "skipped": terms.skipped,
        "waiting": terms.waiting,
        "in doubt": terms.in_doubt,
    }


def _header(figures: Figures) -> str:
    run, certificate = figures.launch.run, figures.launch.certificate
    verdict = "Certificate holds" if certificate.holds else "Certificate does not hold"
    style = "holds" if certificate.holds else "broken"
    facts = [
        f"run {said(run.status)}" if run.status else "",
        f"channel {said(run.channel)}" if run.channel else "",
        f"started {_moment(run.started_at)}" if run.started_at else "",
        f"finished {_moment(run.finished_at)}" if run.finished_at else "",
    ]
    return (
        f'<header><div><p class="over">Launch report</p><h1>{said(figures.campaign_name)}</h1>'
        f'<p class="note">{" · ".join(fact for fact in facts if fact)}</p></div>'
        f'<span class="badge {style}">{verdict}</span></header>\n'
    )


def _moment(given: object) -> str:
    if isinstance(given, datetime):
        given = rfc3339(given)
    if not isinstance(given, str):
        return said(given)
    try:
        return datetime.fromisoformat(given).strftime("%Y-%m-%d %H:%M:%S %Z").strip()
    except ValueError:
        return said(given)


def _tiles(terms: Terms) -> str:
    tiles = "".join(
        f'<div class="tile{"" if count else " none"}"><b>{count:,}</b><span>{name}</span></div>'
        for name, count in {"intended": terms.intended, **_terms(terms)}.items()
    )
    return f'<div class="tiles">{tiles}</div>\n'


def _accounting(terms: Terms) -> str:
    counts = _terms(terms)
    spoken = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    legend = "".join(
        f"<li>{swatch(name)}{name} {share(count, terms.intended)}</li>"
        for name, count in counts.items()
    )
    return (
        "<section><h2>Where every item is</h2>"
        f"{stacked_bar(counts, terms.intended, style='whole', label=spoken)}"
        f'<ul class="legend">{legend}</ul>'
        f'<p class="identity">{identity(terms)}</p></section>\n'
    )


def identity(terms: Terms) -> str:
    """The accounting identity as a sentence, and whether it is true."""
    verdict = "every item is accounted for" if terms.add_up else "this does not add up"
    return (
        f"{_many(terms.intended, 'item')} intended = {terms.waiting:,} waiting"
        f" + {terms.in_doubt:,} in doubt + {terms.sent:,} sent + {terms.failed:,} failed"
        f" + {terms.skipped:,} skipped: <strong>{verdict}</strong>."
    )


def _short(name: str) -> str:
    """A stranger's name for something must not fill the page; the CSV has all of it."""
    most = REPORT_NAME_SHOWN_CHARACTERS
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _many(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _channels(tally: Tally) -> str:
    most = max((counts.total() for counts in tally.by_channel.values()), default=0)
    rows = []
    for channel, counts in sorted(tally.by_channel.items()):
        ordered = {
            name: counts[name] for name in ("sent", "failed", "skipped", "queued") if counts[name]
        }
        spoken = " · ".join(
            f"{count:,} {'open' if name == 'queued' else name}" for name, count in ordered.items()
        )
        bar = stacked_bar(ordered, most, style="bar", label=f"{channel}: {spoken}")
        rows.append(_row(said(channel), bar, spoken))
    note = f"Counted from the {_many(tally.lines, 'line')} of results.csv, which has the lines of"
    note += " this launch and of those it retried."
    return _section("Results by channel", note, rows, "There are no ledger lines.", "rows tall")


def _reasons(reasons: Iterable[Reason]) -> str:
    unsent = [reason for reason in reasons if reason.status in ("failed", "skipped")]
    unsent.sort(key=lambda reason: (-reason.items, reason.status, reason.reason or ""))
    shown, rest = unsent[:REPORT_REASONS_SHOWN_MAX], unsent[REPORT_REASONS_SHOWN_MAX:]
    most = max((reason.items for reason in shown), default=0)
    rows = []
    for each in shown:
        name = _short((each.reason or "no reason").replace("_", " "))
        label = f"{name}, {each.status}: {each.items:,}"
        bar = stacked_bar({each.status: each.items}, most, style="bar", label=label)
        rows.append(
            _row(
                f'{said(name)}<span class="note">{said(each.status)}</span>', bar, f"{each.items:,}"
            )
        )
    note = "Why items failed or were skipped, the most frequent reasons first."
    if rest:
        items = sum(reason.items for reason in rest)
        note += f" {_many(len(rest), 'rarer reason')} with {_many(items, 'item')} are not shown."
    return _section("Reasons", note, rows, "Nothing failed and nothing was skipped.")


def _section(title: str, note: str, rows: list[str], empty: str, style: str = "rows") -> str:
    body = f'<p class="note">{note if rows else empty}</p>'
    if rows:
        body += f'<div class="{style}">{"".join(rows)}</div>'
    return f"<section><h2>{title}</h2>{body}</section>\n"


def _row(label: str, bar: str, count: str) -> str:
    return f'<div class="row"><div>{label}</div>{bar}<div class="count">{count}</div></div>'


def _certificate(certificate: CertificateLine) -> str:
    facts = {
        "Run": certificate.run_id,
        "Campaign": certificate.campaign_id,
        "Ledger digest": certificate.ledger_digest,
        "Issued": certificate.issued_at,
    }
    rows = "".join(
        f"<dt>{name}</dt><dd><code>{plain(fact)}</code></dd>" for name, fact in facts.items()
    )
    criteria = "".join(map(_criterion, certificate.criteria))
    return (
        '<section><h2>Certificate</h2><p class="note">Counted afresh from the ledger’s own rows.'
        f'</p><ul class="criteria">{criteria}</ul><dl>{rows}</dl></section>\n'
    )


def _criterion(criterion: Criterion) -> str:
    mark, style = ("✓", "holds") if criterion.holds else ("✗", "broken")
    spoken = "holds" if criterion.holds else "does not hold"
    name = criterion.name.replace("_", " ").capitalize()
    return (
        f'<li><span class="mark {style}" role="img" aria-label="{spoken}">{mark}</span>'
        f'<p><strong>{said(name)}</strong><br><span class="note">{said(criterion.detail)}</span>'
        "</p></li>"
    )
