"""`outrider retire` as a user meets it."""

import asyncio
from pathlib import Path

import msgspec

from tests.cli.test_cli import Invoke, answer, invoke, written  # noqa: F401
from tests.support.tampering import tampering


async def aged(database: str) -> None:
    """As if everything had ended long ago."""
    async with tampering(database) as raw:
        await raw.run("UPDATE campaign_runs SET finished_at = '2026-01-01T00:00:00.000000Z'")


def test_an_old_run_is_counted_then_retired_and_everything_still_verifies(
    invoke: Invoke,  # noqa: F811
    tmp_path: Path,
    database: str,
) -> None:
    campaign = answer(invoke("campaign", "create", written(tmp_path), "--json"))["campaignId"]
    assert invoke("campaign", "start", campaign, "--work", "--json").exit_code == 0
    run_id = answer(invoke("campaign", "status", campaign, "--json"))["phases"]["launch"]["runId"]
    assert answer(invoke("retire", "--older-than", "30d", "--json"))["runs"] == 0
    asyncio.run(aged(database))
    counted = answer(invoke("retire", "--older-than", "30d", "--dry-run", "--json"))
    assert counted["dryRun"]
    assert counted["runs"] >= 1
    assert "Nothing was changed" in invoke("retire", "--older-than", "30d", "--dry-run").output
    done = answer(invoke("retire", "--older-than", "30d", "--json"))
    assert (done["runs"], done["kept"]) == (counted["runs"], [])
    bundle = tmp_path / "bundle.jsonl"
    assert invoke("run", "evidence", run_id, "--out", str(bundle)).exit_code == 0
    assert invoke("verify", str(bundle)).exit_code == 0
    assert invoke("run", "certificate", run_id).exit_code == 0
    verified = invoke("verify", "--database", "--json")
    assert verified.exit_code == 0, verified.output
    assert msgspec.json.decode(verified.output)["retired"] == counted["runs"]


def test_what_is_no_age_is_refused(invoke: Invoke) -> None:  # noqa: F811
    refused = invoke("retire", "--older-than", "soon")
    assert refused.exit_code != 0
    assert "90d" in refused.output
