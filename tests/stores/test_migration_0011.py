"""Migration 0011 on a database in use: who opted out still has, and intents that wait are known."""

from pathlib import Path

import pytest

from outrider.bootstrap import make_store
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.purposes import UNSTATED, Purpose
from outrider.domain.suppressions import SuppressionSource
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import suppressions
from outrider.testing.launches import target
from tests.support.intents import ended, until
from tests.support.old_databases import (
    OLD_TABLES,
    copy_rows,
    migrate_to,
    other_database,
)
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened, working

pytestmark = pytest.mark.empty_database

__all__ = ["other_database"]

LEFT, ASKED = "+447700900001", "+447700900002"


async def test_opt_outs_remain_in_force_also_for_waiting_intents(
    database: str, other_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A8: a recipient's own unsubscribe lets transactional messages through, all else does not."""
    async with Sandbox() as sandbox:
        gateway = target("sms", "sms", sandbox.http_url)
        async with opened(other_database, tmp_path, gateway) as earlier:
            for name, number in (("a", "+44 7700 900-001"), ("b", "+44 (7700) 900.002")):
                given = Submission(name, "sms", {"to": number, "message": "Hi"})
                await earlier.submissions.submit(DEFAULT_SCOPE, given)
        await migrate_to(database, 10, monkeypatch)
        await copy_rows(other_database, database, OLD_TABLES)
        async with raw_sql(database) as raw:
            await raw.run("UPDATE channel_outbox SET recipient_address = NULL")
            for address, reason in ((LEFT, "unsubscribed"), (ASKED, "opted_out")):
                await raw.run(
                    "INSERT INTO suppressions (tenant_id, workspace_id, channel, address, reason,"
                    f" created_at) SELECT tenant_id, workspace_id, 'sms', '{address}', '{reason}',"
                    " created_at FROM channel_outbox LIMIT 1"
                )
        store = make_store(database)
        assert (await store.migrate())[0] == "0011_opt_outs"
        kept = await store.read(suppressions.page(DEFAULT_SCOPE, suppressions.FIRST, 10))
        await store.close()
        assert [(each.address, each.topic, each.source, each.includes_transactional)
                for each in kept] == [
            (LEFT, None, SuppressionSource.UNSUBSCRIBE, False),
            (ASKED, None, SuppressionSource.API, True),
        ]  # fmt: skip
        urgent = Purpose(transactional=True)
        async with opened(database, tmp_path, gateway) as after, working(after):
            for name, number, purpose in (
                ("c", LEFT, urgent), ("d", ASKED, urgent), ("e", LEFT, UNSTATED),
            ):  # fmt: skip
                given = Submission(name, "sms", {"to": number, "message": "Hi"}, purpose=purpose)
                await after.submissions.submit(DEFAULT_SCOPE, given)
            found = {name: (await until(after, name, ended))[0] for name in "abcde"}
        assert {name: each.final_outcome for name, each in found.items()} == {
            "a": "suppressed", "b": "suppressed", "c": "accepted", "d": "suppressed",
            "e": "suppressed",
        }  # fmt: skip
        assert sandbox.requests == 1
