"""The frequency cap between worker processes: of many messages to one address, one goes out."""

import json
from collections import Counter

from outrider.documents.policy import parse_policy
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import ItemStatus
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import ledger_items
from tests.crash.scene import Provider, Scene
from tests.support.eventually import eventually

WORKERS, TRIES = 4, 400
SUBMITTED_TOGETHER = 1_000
CAP = {"frequencyCap": {"messages": 1, "perHours": 24, "whenReached": "skip"}}
PHONE = "+447700900123"


async def one_of_them_is_sent(
    scene: Scene, workers: int, tries: int, *, lanes: int, seconds: float
) -> None:
    """The lanes of a target are held by different processes, so that they meet at the address; the
    provider's own log is the witness."""
    policies = parse_policy(json.dumps(CAP).encode())
    await scene.outrider.policy_keeper.put(DEFAULT_SCOPE, policies, "test")
    ids = []
    for begin in range(0, tries, SUBMITTED_TOGETHER):
        batch = [
            Submission(f"try-{each}", Provider.SMS.target, {"to": PHONE, "message": "Hello"})
            for each in range(begin, min(begin + SUBMITTED_TOGETHER, tries))
        ]
        for answer in await scene.outrider.submissions.submit_all(DEFAULT_SCOPE, batch):
            assert isinstance(answer, tuple)
            ids.append(answer[0].outbox_id)
    started = [scene.start_worker(jobs_in_parallel=lanes) for _ in range(workers)]

    async def statuses() -> Counter[str]:
        found = Counter[str]()
        for begin in range(0, tries, SUBMITTED_TOGETHER):
            page = ledger_items.items(DEFAULT_SCOPE, ids[begin : begin + SUBMITTED_TOGETHER])
            found.update(item.status for item in await scene.outrider.store.read(page))
        return found

    async def all_have_ended() -> bool:
        return (await statuses())[ItemStatus.QUEUED] == 0

    await eventually(all_have_ended, seconds=seconds)
    for each in started:
        await each.stop()
    assert await statuses() == {ItemStatus.SENT: 1, ItemStatus.SKIPPED: tries - 1}
    assert scene.sandbox.deliveries.total() == 1


async def test_worker_processes_send_one_of_many_messages_to_one_address(scene: Scene) -> None:
    await one_of_them_is_sent(scene, WORKERS, TRIES, lanes=2, seconds=60)
