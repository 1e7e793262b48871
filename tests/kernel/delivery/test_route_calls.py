"""Route calls: as many at once as the target allows."""

from pathlib import Path

from outrider.domain.states import Channel
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.ports.stages import Stage
from outrider.settings import TargetSettings
from outrider.testing.launches import launch, message, people, remembering, target
from tests.support.whole_runs import opened, work_until_terminal

ALLOWED, PEOPLE = 3, 30


class CallCounter:
    """How many calls were in progress at the same time, at most."""

    def __init__(self) -> None:
        self.in_progress = self.most = self.calls = 0

    def before(self, stage: Stage) -> None:
        if stage is Stage.CALL:
            self.calls += 1
            self.in_progress += 1
            self.most = max(self.most, self.in_progress)

    def after(self, stage: Stage) -> None:
        if stage is Stage.CALL:
            self.in_progress -= 1


async def test_all_allowed_calls_are_in_progress_at_once_and_never_more(
    database: str, tmp_path: Path
) -> None:
    counter = CallCounter()
    settings = remembering("sms.all", given={"sms.all": TargetSettings(concurrency=ALLOWED)})
    async with Sandbox(Faults(latency_ms=20)) as sandbox:
        entry = target("sms.all", "sms", sandbox.http_url)
        async with opened(database, tmp_path, entry, targets=settings) as outrider:
            offer = message(Channel.SMS, "sms.all", body="Hi")
            run_id = await launch(outrider, [offer], people(PEOPLE), batch_size=10)
            accounting = await work_until_terminal(outrider, run_id, observer=counter)
    assert (accounting.sent, counter.calls, counter.in_progress) == (PEOPLE, PEOPLE, 0)
    assert counter.most == ALLOWED
