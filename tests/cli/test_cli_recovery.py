"""`outrider recovery` as a user meets it."""

import asyncio

from tests.cli.test_cli import Invoke, answer, invoke  # noqa: F401
from tests.support.tampering import tampering


async def moved(database: str) -> None:
    async with tampering(database) as raw:
        await raw.run(
            "INSERT INTO quarantine (id, reason, place, began_at)"
            " VALUES (1, 'it was moved', 'elsewhere', '2026-01-01T00:00:00.000000Z')"
        )


def test_a_quarantine_is_shown_and_ended(invoke: Invoke, database: str) -> None:  # noqa: F811
    assert "not in quarantine" in invoke("recovery", "status").output
    refused = invoke("recovery", "release")
    assert refused.exit_code == 1
    assert "not in quarantine" in refused.output
    asyncio.run(moved(database))
    shown = answer(invoke("recovery", "status", "--json"))["quarantine"]
    assert (shown["reason"], shown["since"][:4]) == ("it was moved", "2026")
    assert "it was moved" in invoke("recovery", "status").output
    assert answer(invoke("recovery", "release", "--json"))["released"]
    assert answer(invoke("recovery", "status", "--json"))["quarantine"] is None
    asyncio.run(moved(database))
    assert "where it stopped" in invoke("recovery", "release", "--nothing-lost").output
