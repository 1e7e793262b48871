"""What is left to do for a job that was held before."""

from datetime import UTC, datetime, timedelta

from outrider.domain.ids import OutboxId, RecipientId
from outrider.kernel.delivery.remaining_members import remaining, resolves_silence
from outrider.kernel.transactions.ledger import LedgerRow, Member

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def row(name: str, status: str = "queued") -> LedgerRow:
    return LedgerRow(
        OutboxId(f"row-{name}"), RecipientId(name), status, is_open=False, next_attempt_at=None,
        is_doubted=False, attempts=1, attempt_contract_id=None, maybe_received=False,
        created_at=NOW, uncounted_calls=0, repeats=0, contract_id=1,
    )  # fmt: skip


def member(name: str) -> Member:
    return Member(RecipientId(name), None, "{}", 0, 0)


def test_members_are_sorted_by_what_their_rows_say() -> None:
    rows = [
        row("sent", "sent"),
        row("doubted")._replace(is_doubted=True),
        row("due"),
        row("later")._replace(next_attempt_at=NOW + timedelta(seconds=1)),
        row("open")._replace(is_open=True, next_attempt_at=NOW + timedelta(seconds=1)),
        row("late"),
    ]
    members = [member(each.recipient_id) for each in rows[:-1]]
    members += [member("late")._replace(accepted_late=True), member("new")]
    left = remaining(members, rows, NOW)
    assert [each.recipient_id for each in left.fresh] == ["new"]
    assert [each.recipient_id for _, each in left.again] == ["due", "open"]
    assert left.accepted_late == ["row-late"]


def test_what_may_have_arrived_is_settled_at_any_hour() -> None:
    assert resolves_silence(row("open")._replace(is_open=True))
    assert resolves_silence(row("silent")._replace(maybe_received=True))
    assert not resolves_silence(row("due"))
