"""A campaign's message is made again to be compared with what its provider has."""

from pathlib import Path

from outrider.domain.states import Channel
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.testing.launches import launch, message, people
from tests.support.doubt_scene import scene, verdicts
from tests.support.whole_runs import work_until_terminal


async def test_a_campaigns_texts_are_compared_as_each_recipient_got_them(
    database: str, tmp_path: Path
) -> None:
    async with (
        Sandbox(Faults(drop_rate=0.6, seed=2)) as sandbox,
        scene(database, tmp_path, sandbox, "twilio_sms", maxAttempts=9) as outrider,
    ):
        offer = message(Channel.SMS, "t", body="Hello {{ firstName }}")
        run_id = await launch(outrider, [offer], people(12))
        await work_until_terminal(outrider, run_id)
        given = await verdicts(outrider)
    assert sorted(sandbox.deliveries.values()) == [1] * 12
    assert set(given) == {("look_up_by_content", "sent")}
