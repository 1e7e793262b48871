"""The person eraser: nothing identifies the person afterwards, and everything still verifies."""

import json
import subprocess
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.erasure import DrawnRange, Identity, named, replacement
from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE, Scope, TenantId, WorkspaceId
from outrider.domain.people import readings
from outrider.domain.recipients import recipient
from outrider.domain.rollouts import DRAW_BYTES, draw
from outrider.domain.states import Channel
from outrider.domain.suppressions import OptOut
from outrider.kernel.proof import person_eraser
from outrider.kernel.proof.bundle_verifier import BundleVerifier
from outrider.kernel.transactions import erasures, suppressions
from outrider.secrets.signing import is_signed
from outrider.testing.launches import message, observe
from outrider.testing.postgres import PROGRAMS
from tests.support.erasure_scene import (
    MAIL,
    NAME,
    OTHER,
    PHONE,
    TRACES,
    ada,
    campaign,
    dumped,
    erasure_scene,
    everywhere,
    left_in_files,
    reported,
    start,
    verified,
)
from tests.support.intents import submit
from tests.support.raw_sql import Refused, raw_sql
from tests.support.tampering import tampering
from tests.support.whole_runs import work_until_terminal
from tests.support.workflows import SMS

STRANGER = Scope(
    TenantId("00000000-0000-7000-8000-0000000000aa"),
    WorkspaceId("00000000-0000-7000-8000-0000000000ab"),
)


async def test_nothing_is_left_of_a_person_and_everything_still_verifies(
    database: str, tmp_path: Path
) -> None:
    async with erasure_scene(database, tmp_path) as desk:
        outrider = desk.outrider
        run_id = await everywhere(desk)
        certificate = await outrider.certifier.document(DEFAULT_SCOPE, run_id)
        before = await dumped(database)
        assert all(trace in before.lower() for trace in TRACES)
        assert left_in_files(database, tmp_path)
        done = await outrider.person_eraser.erase(DEFAULT_SCOPE, "ada@EXAMPLE.test", "dpo")
        assert (done.is_complete, done.waiting, done.jobs) == (True, 0, 0)
        assert done.is_rewritten
        assert {each.key for each in done.addresses} >= {MAIL.lower(), PHONE, "token-of-ada"}
        after = await dumped(database)
        assert [line for line in after.splitlines() if any(t in line.lower() for t in TRACES)] == []
        assert left_in_files(database, tmp_path) == []
        found = await verified(outrider)
        assert found.findings == []
        assert found.erased >= 1
        still = await outrider.certifier.document(DEFAULT_SCOPE, run_id)
        assert still["holds"]
        assert still["ledgerDigest"] == certificate["ledgerDigest"]
        bundle = [piece async for piece in outrider.evidence_writer.bundle(DEFAULT_SCOPE, run_id)]
        lines = b"".join(bundle).splitlines(keepends=True)
        assert BundleVerifier(is_signed).verify(lines).findings == []
        # What she had not been sent yet never will be.
        waiting, attempts = await outrider.submissions.intent(DEFAULT_SCOPE, "intent-waiting")
        assert (waiting.status, attempts) == ("REJECTED", [])


async def quote(database: str, run_id: str) -> None:
    """As a provider, a custom phase or a consumer could, where Outrider keeps what they said."""
    words = f"550 <{MAIL}>: moved, call {PHONE}"
    async with tampering(database) as raw:
        [(seq,)] = await raw.run(f"SELECT last_seq FROM campaign_runs WHERE id = '{run_id}'")
        await raw.run(
            "INSERT INTO event_bus_dead_letters (id, tenant_id, workspace_id, sink, run_id,"
            f" run_seq, attempts, error, created_at) VALUES ('{run_id}',"
            f" '{DEFAULT_SCOPE.tenant_id}', '{DEFAULT_SCOPE.workspace_id}', 'crm', '{run_id}',"
            f" {seq}, 3, '{words}', '2026-01-01T00:00:00.000000Z')"
        )
        await raw.run(
            "INSERT INTO alerts (id, tenant_id, workspace_id, code, severity, subject, message,"
            f" detail, raised_at, last_seen_at) VALUES ('{run_id}', '{DEFAULT_SCOPE.tenant_id}',"
            f" '{DEFAULT_SCOPE.workspace_id}', 'TARGET_DOWN', 'P2', 't', '{words}',"
            f""" '{{"why": "{words}"}}', '2026-01-01T00:00:00.000000Z',"""
            " '2026-01-01T00:00:00.000000Z')"
        )
        await raw.run(f"UPDATE job_queue SET last_error = '{words}' WHERE run_id = '{run_id}'")


async def test_what_others_said_about_a_person_is_erased_where_it_is_kept(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In dead letters, alerts and the last errors of jobs; everything else in them stays."""
    monkeypatch.setattr(person_eraser, "ERASE_TEXTS_WINDOW", 1)
    addresses = (MAIL.lower(), PHONE.removeprefix("+"))
    async with erasure_scene(database, tmp_path) as desk:
        _, run_id = await reported(desk.outrider, [ada(), OTHER])
        await quote(database, run_id)
        listed = await desk.outrider.person_eraser.find(DEFAULT_SCOPE, MAIL)
        done = await desk.outrider.person_eraser.erase(DEFAULT_SCOPE, MAIL, "dpo")
        assert {"alerts", "job_queue", "event_bus_dead_letters"} <= set(done.rows)
        assert +listed.rows == +done.rows
        after = (await dumped(database)).lower()
        assert [each for each in addresses if each in after] == []
        assert left_in_files(database, tmp_path) == []
        async with raw_sql(database) as raw:
            [(message_, detail)] = await raw.run("SELECT message, detail FROM alerts")
        assert str(message_).startswith("550 <erased>")
        assert json.loads(detail)["why"] == message_


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_a_dump_of_postgres_has_nothing_of_an_erased_person(
    database: str, tmp_path: Path
) -> None:
    async with erasure_scene(database, tmp_path) as desk:
        run_id = await everywhere(desk)
        assert all(trace in pg_dumped(database) for trace in TRACES)
        await desk.outrider.person_eraser.erase(DEFAULT_SCOPE, MAIL, "dpo")
        after = pg_dumped(database)
        assert run_id in after
        assert [trace for trace in TRACES if trace in after] == []


def pg_dumped(database: str) -> str:
    dump = subprocess.run(
        [PROGRAMS / "pg_dump", "--inserts", database], check=True, capture_output=True, text=True
    )
    return dump.stdout.lower()


async def test_a_dry_run_counts_what_is_erased_then_and_changes_nothing(
    database: str, tmp_path: Path
) -> None:
    async with erasure_scene(database, tmp_path) as desk:
        await everywhere(desk)
        before = await dumped(database)
        found = await desk.outrider.person_eraser.find(DEFAULT_SCOPE, MAIL)
        assert await dumped(database) == before
        done = await desk.outrider.person_eraser.erase(DEFAULT_SCOPE, MAIL, "dpo")
        # The opt-outs became hashes with the beginning.
        assert found.rows["suppressions"] == 1
        del found.rows["suppressions"]
        assert +found.rows == +done.rows
        assert found.rows["channel_outbox"] == 5
        assert found.files == done.files
        assert [each.name for each in found.files] == ["results.csv"]
        assert not found.is_complete


async def test_an_address_that_is_imported_again_stays_suppressed(
    database: str, tmp_path: Path
) -> None:
    async with erasure_scene(database, tmp_path) as desk:
        outrider = desk.outrider
        await reported(outrider, [ada(), OTHER])
        await outrider.person_eraser.erase(DEFAULT_SCOPE, MAIL, "dpo")
        run_id = await start(outrider, await campaign(outrider, [ada(), OTHER]))
        accounting = await work_until_terminal(outrider, run_id)
        assert (accounting.sent, accounting.skipped) == (1, 1)
        sender = outrider.suppression_keeper
        planned = [suppressions.PlannedMessage("email", MAIL)]
        script = suppressions.suppressed_among(DEFAULT_SCOPE, planned)
        assert await outrider.store.read(script) == set(planned)
        assert await sender.remove(DEFAULT_SCOPE, "sms", [PHONE], "test") == 1
        run_id = await start(outrider, await campaign(outrider, [ada(), OTHER]))
        assert (await work_until_terminal(outrider, run_id)).sent == 2


async def test_other_people_and_other_tenants_are_untouched(database: str, tmp_path: Path) -> None:
    async with erasure_scene(database, tmp_path) as desk:
        outrider = desk.outrider
        # They share a phone, and have different addresses beside it.
        sharing = recipient("lead-3", email="cy@example.test", phone=PHONE)
        await reported(outrider, [ada(), OTHER, sharing])
        await submit(outrider, "intent-other", SMS, to=OTHER.phone, message="Dear Bo")
        opt_out = OptOut("asked for it")
        now = outrider.clock.now()
        script = suppressions.suppress(STRANGER, "email", [MAIL], opt_out, now)
        await outrider.store.write(script)
        await outrider.person_eraser.erase(DEFAULT_SCOPE, MAIL, "dpo")
        async with raw_sql(database) as raw:
            members = await raw.run(
                "SELECT recipient_id, email FROM audience_members WHERE email IS NOT NULL"
                " ORDER BY recipient_id"
            )
            assert members == [("lead-2", OTHER.email), ("lead-3", "cy@example.test")]
            kept = await raw.run("SELECT address FROM suppressions")
            assert kept == [(MAIL.lower(),)]
            items = await raw.run(
                "SELECT recipient_id, recipient_address FROM channel_outbox"
                " WHERE recipient_address IS NOT NULL ORDER BY recipient_id"
            )
            assert ("lead-2", OTHER.phone) in items
            assert ("intent-other", OTHER.phone) in items
        intent, _ = await outrider.submissions.intent(DEFAULT_SCOPE, "intent-other")
        assert intent.status == "PENDING"


@pytest.mark.parametrize("windows", [0, 1, 2, 4, 6])
async def test_an_erasure_that_is_killed_is_completed_by_the_next(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, windows: int
) -> None:
    """Killed after so many windows. The phone is only known from rows that are already erased."""
    async with erasure_scene(database, tmp_path) as desk:
        outrider = desk.outrider
        await everywhere(desk)
        eraser, left = outrider.person_eraser, windows
        do = eraser._do

        async def killed(passing: object, script: object) -> object:
            nonlocal left
            if left == 0:
                raise StoreUnavailable("killed")
            left -= 1
            return await do(passing, script)  # type: ignore[arg-type]

        monkeypatch.setattr(eraser, "_do", killed)
        with pytest.raises(StoreUnavailable):
            await eraser.erase(DEFAULT_SCOPE, MAIL, "dpo")
        monkeypatch.setattr(eraser, "_do", do)
        assert (await verified(outrider)).findings == []
        if windows % 2:
            assert await eraser.resume() == 1
        else:
            assert (await eraser.erase(DEFAULT_SCOPE, MAIL, "dpo")).is_complete
        after = await dumped(database)
        assert [line for line in after.splitlines() if any(t in line.lower() for t in TRACES)] == []
        assert left_in_files(database, tmp_path) == []
        assert (await verified(outrider)).findings == []
        assert await outrider.store.read(erasures.under_way()) == []


async def test_a_call_in_doubt_is_waited_for(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(person_eraser, "ERASE_PASSES", 1)
    async with erasure_scene(database, tmp_path) as desk:
        outrider = desk.outrider
        await submit(outrider, "intent-1", SMS, to=PHONE, message=f"Dear {NAME}")
        async with raw_sql(database) as raw:
            await raw.run(
                "UPDATE channel_outbox SET attempts = 1, attempt_fence = 1,"
                " attempt_opened_at = created_at, next_attempt_at = NULL, doubted_at = created_at"
            )
        done = await outrider.person_eraser.erase(DEFAULT_SCOPE, PHONE, "dpo")
        assert (done.is_complete, done.waiting) == (False, 1)
        async with raw_sql(database) as raw:
            await raw.run(
                "UPDATE channel_outbox SET status = 'failed', intent_status = 'EXHAUSTED',"
                " attempt_closed_at = created_at, doubted_at = NULL"
            )
        assert await outrider.person_eraser.resume() == 1
        assert PHONE not in await dumped(database)


async def test_the_audit_log_says_that_somebody_was_erased_and_not_who(
    noop_outrider: Outrider, database: str
) -> None:
    await noop_outrider.person_eraser.erase(DEFAULT_SCOPE, MAIL, "dpo")
    async with raw_sql(database) as raw:
        entries = await raw.run("SELECT event, actor, detail FROM campaign_audit_log ORDER BY id")
    assert [each[:2] for each in entries] == [
        ("person.erasure_begun", "dpo"), ("person.erased", "dpo"),
    ]  # fmt: skip
    assert MAIL.lower() not in str(entries).lower()


async def test_who_is_erased_before_the_launch_is_skipped_in_it(
    database: str, tmp_path: Path
) -> None:
    async with erasure_scene(database, tmp_path) as desk:
        outrider = desk.outrider
        campaign_id = await campaign(outrider, [ada(), OTHER])
        await outrider.person_eraser.erase(DEFAULT_SCOPE, "customer-1", "dpo")
        run_id = await start(outrider, campaign_id)
        await outrider.person_eraser.erase(DEFAULT_SCOPE, MAIL, "dpo")
        accounting = await work_until_terminal(outrider, run_id)
        assert (accounting.sent, accounting.skipped) == (1, 1)
        _, again = await observe(outrider, run_id)
        assert again.holds


async def test_a_row_that_only_claims_to_be_erased_is_found(database: str, tmp_path: Path) -> None:
    async with erasure_scene(database, tmp_path) as desk:
        outrider = desk.outrider
        await reported(outrider, [ada(), OTHER])
        await outrider.person_eraser.erase(DEFAULT_SCOPE, MAIL, "dpo")
        async with tampering(database) as raw:
            await raw.run(
                "UPDATE channel_outbox SET recipient_address = '+447700900999'"
                " WHERE recipient_address IS NULL"
            )
        found = await verified(outrider)
        assert [each.what for each in found.findings] == ["ledger_row"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE channel_outbox SET recipient_address = NULL",
        "UPDATE channel_outbox SET error = NULL, reason = 'x'",
        "UPDATE domain_events SET variables = '{}'",
    ],
)
async def test_the_database_refuses_to_erase_what_was_not_listed(
    database: str, tmp_path: Path, statement: str
) -> None:
    async with erasure_scene(database, tmp_path) as desk:
        await reported(desk.outrider, [ada()])
        await desk.routed("quote_sent", note="one")
        async with raw_sql(database) as raw:
            with pytest.raises(Refused, match="never changes"):
                await raw.run(statement)


async def test_a_run_is_sealed_as_it_is_after_an_erasure_that_came_between(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with erasure_scene(database, tmp_path) as desk:
        outrider = desk.outrider
        run_id = await start(outrider, await campaign(outrider, [ada(), OTHER]))
        await work_until_terminal(outrider, run_id)
        sealer, reads = outrider.run_sealer, 0
        read = sealer._read

        async def interrupted(*given: object) -> None:
            nonlocal reads
            reads += 1
            await read(*given)  # type: ignore[arg-type]
            if reads == 1:
                await outrider.person_eraser.erase(DEFAULT_SCOPE, MAIL, "dpo")

        monkeypatch.setattr(sealer, "_read", interrupted)
        assert await sealer.seal_due() == 1
        assert reads == 2
        assert (await verified(outrider)).findings == []


async def test_records_that_are_not_imported_yet_are_erased_and_keep_their_places(
    database: str, tmp_path: Path
) -> None:
    async with erasure_scene(database, tmp_path) as desk:
        outrider = desk.outrider
        sms = message(Channel.SMS, SMS)
        phases = ("audience_import", LAUNCH)
        definition = CampaignDefinition("spring", phases, (sms,), 100)
        given = [
            OTHER,
            ada(),
            recipient("lead-4", phone="+447700900789", attributes=OTHER.attributes),
        ]
        campaign_id, _ = await outrider.deployer.create(DEFAULT_SCOPE, definition, given, "test")
        assert NAME in await dumped(database)
        done = await outrider.person_eraser.erase(DEFAULT_SCOPE, MAIL, "dpo")
        assert done.rows["audience_uploads"] == 1
        assert PHONE in [each.text for each in done.addresses]
        assert NAME not in await dumped(database)
        await work_until_terminal(outrider, await start(outrider, campaign_id, "audience_import"))
        accounting = await work_until_terminal(outrider, await start(outrider, campaign_id))
        assert (accounting.sent, accounting.skipped) == (2, 1)


def test_who_is_erased_stays_in_the_same_step_of_a_rollout() -> None:
    whole = 2 ** (8 * DRAW_BYTES)
    ranges = [
        DrawnRange(run, first, last)
        for run in ("run-1", "run-2")
        for first, last in ((0, whole // 100), (whole // 100 + 1, whole))
    ]
    for number in range(20):
        name = f"lead-{number}"
        renamed = replacement(f"seed-{number}", name, ranges)
        for each in ranges:
            was = each.first <= draw(each.salt, name) <= each.last
            assert was == (each.first <= draw(each.salt, renamed) <= each.last)


def test_a_record_with_a_second_address_of_its_own_is_another_person() -> None:
    identity = Identity(readings("ada@example.test"))
    assert identity.link(named("customer-1", "Ada@example.test", PHONE, None))
    assert identity.owns(named("other-id", None, PHONE, None))
    assert not identity.owns(named("other-id", "cy@example.test", PHONE, None))
    assert not identity.owns(named("customer-1", "cy@example.test", None, None))
    assert not identity.owns(named("customer-1", None, None, None))
    assert identity.owns(named("x", "ADA@EXAMPLE.test", "+447700900999", None))
    assert Channel.SMS in [c for each in identity.addresses for c in each.channels]
