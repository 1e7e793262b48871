"""The report as one self-contained HTML page: figures go in, a document comes out.

Names, ids and reasons are untrusted text: here they are made printable, and the template escapes
them.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from outrider.domain.delivery_counts import DeliveryCounts
from outrider.domain.screen_policies import WaitsFor
from outrider.domain.texts import storable
from outrider.domain.times import rfc3339
from outrider.limits.phases import REPORT_NAME_SHOWN_CHARACTERS, REPORT_REASONS_SHOWN_MAX
from outrider.phases.report_charts import WIDTH, outcome_style, pieces
from outrider.phases.report_figures import (
    CertificateLine,
    Figures,
    LineTally,
    Reason,
    ReportedRun,
    Terms,
)
from outrider.rendering.pages import pages_in

HELD = {
    WaitsFor.QUIET_HOURS: "waited for their quiet hours to end",
    WaitsFor.SENDING_WINDOW: "waited for the sending window to open",
    WaitsFor.FREQUENCY_CAP: "waited for room under the frequency cap of their address",
    WaitsFor.LOCAL_TIME: "waited for the launch at their local time",
    WaitsFor.WARM_UP: "waited for the next day of a warm-up plan",
    WaitsFor.DOMAIN_LIMIT: "waited under the limits of their domain",
    WaitsFor.DOMAIN_THROTTLED: "waited for their mailbox provider, which asked to retry later",
}
"""What was held back for a while; the policy or a target said so, and nothing failed of it."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def report_page(figures: Figures) -> str:
    launch = figures.launch
    counts = _counts(launch.accounting)
    return pages_in(Path(__file__).parent).render_template(
        "report.html",
        policy=POLICY,
        width=f"{WIDTH:.0f}",
        name=_plain(figures.campaign_name),
        facts=list(_facts(launch.run, launch.runs)),
        terms=launch.accounting,
        add_up=launch.accounting.add_up,
        outcomes=[
            {
                "name": name,
                "count": count,
                "outcome": outcome_style(name),
                "share": share(count, launch.accounting.intended),
            }
            for name, count in counts.items()
        ],
        whole=pieces(counts, launch.accounting.intended),
        spoken=", ".join(f"{count:,} {name}" for name, count in counts.items()),
        lines=figures.tally.lines,
        channels=_channels(figures.tally),
        deliveries=_deliveries(figures.tally.deliveries),
        certificate=_certificate(launch.certificate),
        runs=launch.runs,
        held=[
            {"items": each.items, "waited": HELD[each.waits_for]}
            for each in launch.certificate.held
            if each.items
        ],
        **_reasons(figures.tally.reasons),
    )


def share(part: int, whole: int) -> str:
    """A percentage that says 0 or 100 only if it is exactly none or all."""
    if whole <= 0 or part <= 0:
        return "0 %"
    if part >= whole:
        return "100 %"
    percent = part / whole * 100
    if percent < 0.1:
        return "< 0.1 %"
    return "> 99.9 %" if percent > 99.9 else f"{percent:.1f} %"


def _plain(given: object) -> str:
    return storable(str(given)) or ""


def _counts(terms: Terms) -> dict[str, int]:
    return {
        "sent": terms.sent,
        "failed": terms.failed,
        "skipped": terms.skipped,
        "waiting": terms.waiting,
        "in doubt": terms.in_doubt,
    }


def _facts(run: ReportedRun, runs: int) -> Iterable[tuple[str, str]]:
    known = {
        "run" if runs == 1 else "latest run": run.status,
        "channel": run.channel,
        "started": run.started_at and _moment(run.started_at),
        "finished": run.finished_at and _moment(run.finished_at),
    }
    return ((name, _plain(fact)) for name, fact in known.items() if fact)


def _moment(given: object) -> object:
    if isinstance(given, datetime):
        given = rfc3339(given)
    if not isinstance(given, str):
        return given
    try:
        return datetime.fromisoformat(given).strftime("%Y-%m-%d %H:%M:%S %Z").strip()
    except ValueError:
        return given


def _deliveries(counts: DeliveryCounts) -> str:
    """Nothing where no receipt has arrived: most targets send none."""
    if not counts.reported:
        return ""
    said = ", ".join(f"{items:,} {name}" for name, items in counts.named().items() if items)
    sent = counts.reported + counts.unknown
    return f"As reported by receipts, for {counts.reported:,} of {sent:,} sent messages: {said}."


def _channels(tally: LineTally) -> list[dict[str, Any]]:
    most = max((counts.total() for counts in tally.by_channel.values()), default=0)
    rows = []
    for channel, counts in sorted(tally.by_channel.items()):
        ordered = {
            name: counts[name] for name in ("sent", "failed", "skipped", "queued") if counts[name]
        }
        spoken = " · ".join(
            f"{count:,} {'open' if name == 'queued' else name}" for name, count in ordered.items()
        )
        rows.append({"name": _plain(channel), "spoken": spoken, "pieces": pieces(ordered, most)})
    return rows


def _reasons(reasons: Iterable[Reason]) -> Mapping[str, Any]:
    unsent = [reason for reason in reasons if reason.status in ("failed", "skipped")]
    unsent.sort(key=lambda reason: (-reason.items, reason.status, reason.reason or ""))
    shown, rest = unsent[:REPORT_REASONS_SHOWN_MAX], unsent[REPORT_REASONS_SHOWN_MAX:]
    most = max((reason.items for reason in shown), default=0)
    return {
        "reasons": [
            {
                "name": _plain(_short((each.reason or "no reason").replace("_", " "))),
                "status": _plain(each.status),
                "items": f"{each.items:,}",
                "pieces": pieces({each.status: each.items}, most),
            }
            for each in shown
        ],
        "rarer": len(rest),
        "rarer_items": sum(reason.items for reason in rest),
    }


def _short(name: str) -> str:
    """A long name must not fill the page; the CSV has all of it."""
    most = REPORT_NAME_SHOWN_CHARACTERS
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _certificate(certificate: CertificateLine) -> Mapping[str, Any]:
    facts = {
        "Run": certificate.run_id,
        "Campaign": certificate.campaign_id,
        "Ledger digest": certificate.ledger_digest,
        "Issued": certificate.issued_at,
    }
    return {
        "holds": certificate.holds,
        "criteria": [
            {
                "name": _plain(each.name.replace("_", " ").capitalize()),
                "holds": each.holds,
                "detail": _plain(each.detail),
            }
            for each in certificate.criteria
        ],
        "facts": [(name, _plain(fact)) for name, fact in facts.items()],
    }
