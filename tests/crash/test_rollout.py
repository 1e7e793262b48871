"""A worker that is killed in a step of a rollout leaves the step to the next worker."""

from outrider.domain.rollouts import RolloutStep
from outrider.kernel.transactions import rollouts
from tests.crash.scene import Provider, Scene

STEPS = (RolloutStep(20), RolloutStep(60), RolloutStep(100))


async def test_workers_killed_in_every_step_of_a_rollout_leave_nobody_out(scene: Scene) -> None:
    await scene.launch(Provider.SMS, 60, batch_size=20, rollout=STEPS)
    for kill_at in ("call:after:5", "settle:after:1", "call:before:4", "settle:before:1"):
        worker = scene.start_worker(kill_at=kill_at)
        await worker.died_of_its_boundary()
    last = scene.start_worker()
    await scene.watcher.until(lambda look: look.is_terminal)
    await scene.ends_well()
    last.discard()
    steps = await scene.outrider.store.read(rollouts.of_run(scene.run_id))
    assert [step.items for step in steps] == [12, 24, 24]
    assert all(step.released_at is not None for step in steps)
    assert [step.released_by for step in steps] == [None, "plan", "plan"]
