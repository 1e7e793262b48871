"""The workflow and the activity of plain Temporal: messages go in, their number comes out."""

from datetime import timedelta

from temporalio import activity, workflow

from systems.child import tell_start

ACTIVITY_SECONDS = 60


@activity.defn
async def send(messages: list[str]) -> int:
    for _ in messages:
        tell_start()
    return len(messages)


@workflow.defn
class SendWindow:
    @workflow.run
    async def run(self, messages: list[str]) -> int:
        return await workflow.execute_activity(
            send, messages, start_to_close_timeout=timedelta(seconds=ACTIVITY_SECONDS)
        )
