"""The gateway caller: each open attempt is called once, and every answer is durable afterwards."""

from pathlib import Path

from outrider.domain.states import Channel
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.testing.launches import launch, message, people, target
from tests.support.whole_runs import items_of, opened, work_until_terminal


async def test_every_call_is_an_attempt_on_record_and_its_answer_is_kept(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(fail_rate=0.5, seed=1)) as sandbox:
        gateway = target("sms.all", "sms", sandbox.http_url, maxAttempts=50)
        async with opened(database, tmp_path, gateway) as outrider:
            offer = message(Channel.SMS, "sms.all", body="Hi")
            run_id = await launch(outrider, [offer], people(40), batch_size=10)
            accounting = await work_until_terminal(outrider, run_id)
            items = await items_of(outrider, run_id)
        assert accounting.sent == 40
        assert sum(item.attempts for item in items.values()) == sandbox.requests
        assert sandbox.requests > 40, "the provider should have failed some"
        assert all(item.provider_message_id for item in items.values())
