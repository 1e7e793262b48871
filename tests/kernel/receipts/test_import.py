"""A provider's export: taken whole or not at all, and every mistake is named at once."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.cli.app import app
from outrider.documents.receipt_export import read_export
from outrider.domain.errors import InvalidInput
from outrider.domain.receipts import ReceiptEvent
from outrider.testing.launches import registry, target

NDJSON = b"""\
{"receiptId": "r-1", "event": "delivered", "gatewayMessageId": "m-1"}

{"receiptId": "r-2", "event": "bounced", "permanent": true, "occurredAt": "2026-01-01T12:00:00Z"}
"""
CSV = b"""\
receiptId,event,gatewayMessageId,permanent,from,occurredAt
r-1,delivered,m-1,,,
r-2,bounced,,true,,2026-01-01T12:00:00Z
"""


@pytest.mark.parametrize("raw", [NDJSON, CSV, b"\xef\xbb\xbf" + CSV])
def test_both_forms_say_the_same(raw: bytes) -> None:
    first, second = read_export(raw)
    assert (first.receipt_id, first.event, first.provider_message_id) == (
        "r-1", ReceiptEvent.DELIVERED, "m-1",
    )  # fmt: skip
    assert (second.permanent, second.provider_message_id) == (True, None)
    assert second.occurred_at is not None


def test_every_bad_line_is_named() -> None:
    raw = NDJSON + b'{"receiptId": "r-3", "event": "eaten"}\n{\n{"event": "read", "more": 1}\n'
    with pytest.raises(InvalidInput) as refused:
        read_export(raw)
    assert [each.path for each in refused.value.problems] == [
        "line 4", "line 5", "line 6", "line 6",
    ]  # fmt: skip


def test_an_export_is_imported_once_and_listed(tmp_path: Path) -> None:
    (tmp_path / "registry.json").write_bytes(registry(target("sms.main", "noop", "noop:")))
    (tmp_path / "export.ndjson").write_bytes(NDJSON)
    (tmp_path / "bad.csv").write_bytes(CSV + b"r-3,eaten,,,,\n")
    place = [
        "--database", f"sqlite:///{tmp_path}/o.db", "--registry", str(tmp_path / "registry.json"),
    ]  # fmt: skip

    def ran(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, [*place, *words])
        assert result.exit_code == code, result.output
        return result.output

    ran("migrate")
    take = ("receipts", "import", "--target", "sms.main")
    assert "line 4" in ran(*take, str(tmp_path / "bad.csv"), code=1)
    done = json.loads(ran(*take, str(tmp_path / "export.ndjson"), "--json"))
    assert (done["read"], done["taken"], done["known"]) == (2, 2, 0)
    again = json.loads(ran(*take, str(tmp_path / "export.ndjson"), "--json"))
    assert (again["taken"], again["known"]) == (0, 2)
    ran("receipts", "import", "--target", "nobody", str(tmp_path / "export.ndjson"), code=1)
    listed = json.loads(ran("receipts", "list", "--json"))
    assert [each["receiptId"] for each in listed["items"]] == ["r-2", "r-1"]
