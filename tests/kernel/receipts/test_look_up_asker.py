"""What a provider's answers prove, and to whom a message that was found belongs."""

from pathlib import Path

from outrider.domain.evidence import EvidenceKind
from outrider.gateways.sandbox import Faults, Sandbox
from tests.support.doubt_scene import ended, scene, submit, verdicts
from tests.support.whole_runs import working


async def test_absent_means_nothing_before_the_records_can_be_complete(
    database: str, tmp_path: Path
) -> None:
    """A look-up that lies (absent, then present) does not double anything."""
    lie = Faults(drop_rate=1, look_up_delay_ms=1_500)
    async with (
        Sandbox(lie) as sandbox,
        scene(
            database, tmp_path, sandbox, "twilio_sms", delay_seconds=10, maxAttempts=9
        ) as outrider,
    ):
        await submit(outrider, "twilio_sms", 5)
        async with working(outrider):
            await ended(outrider, 5)
        given = await verdicts(outrider)
    assert sandbox.look_ups > 5
    assert given == {(EvidenceKind.CONTENT.value, "sent"): 5}
    assert sorted(sandbox.deliveries.values()) == [1] * 5


async def test_the_contract_decides_whether_what_never_arrived_goes_again(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox(Faults(lose_rate=1)) as sandbox,
        scene(database, tmp_path, sandbox, "smtp", policy="one_shot") as outrider,
    ):
        await submit(outrider, "smtp", 2)
        async with working(outrider):
            found = await ended(outrider, 2)
        given = await verdicts(outrider)
    assert {(each.item_status, each.exhausted_reason) for each in found} == {("failed", "one_shot")}
    assert given == {(EvidenceKind.LOOK_UP.value, "failed"): 2}
    assert not sandbox.deliveries
