"""Shorthands for tests and benchmarks: a registry, an audience and a launched campaign."""

import asyncio
from collections.abc import Iterable, Mapping

import msgspec

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH, CampaignDefinition, Message, PauseOn
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.local_launches import LocalLaunch
from outrider.domain.outbox import Accounting
from outrider.domain.phases import Action
from outrider.domain.recipients import Recipient, recipient
from outrider.domain.rollouts import RolloutStep
from outrider.domain.states import TERMINAL_RUNS, Channel, RunStatus
from outrider.domain.variants import WinnerRule
from outrider.kernel.transactions import accountings
from outrider.kernel.transactions.phase_controls import Control
from outrider.kernel.transactions.run_records import RunRecord
from outrider.settings import TargetSettings

ACTOR = "test"
WATCH_SECONDS = 0.02


def target(
    name: str,
    gateway_type: str,
    gateway_url: str,
    *,
    policy: str = "max_attempts",
    terminal_outcomes: Iterable[str] = (),
    **terms: object,
) -> dict[str, object]:
    """One registry entry; without further terms it allows five attempts."""
    if policy == "max_attempts":
        terms.setdefault("maxAttempts", 5)
    return {
        "submissionTarget": name,
        "gatewayType": gateway_type,
        "gatewayUrl": gateway_url,
        "mode": "realtime",
        "policy": policy,
        "terminalOutcomes": list(terminal_outcomes),
        **terms,
    }


def remembering(
    *names: str, given: Mapping[str, TargetSettings] | None = None
) -> dict[str, TargetSettings]:
    """Settings that declare the truth about the sandbox: behind these targets, every reference is
    remembered for good. Other given settings are kept, and delays are not set: those are the
    worker's own."""
    declared = {"remembers_references": "for_good"}
    settings = dict(given or {})
    return settings | {
        name: settings.get(name, TargetSettings()).model_copy(update=declared) for name in names
    }


def registry(*targets: dict[str, object]) -> bytes:
    return msgspec.json.encode({"targets": targets})


def people(count: int, *, message_id: str | None = None, prefix: str = "lead") -> list[Recipient]:
    """Recipients with an address of every kind."""
    return [
        recipient(
            f"{prefix}-{number}",
            email=f"{prefix}{number}@example.test",
            phone=f"+4477{number:08d}",
            push_token=f"token-{prefix}-{number}",
            attributes=msgspec.json.encode({"firstName": f"Person {number}"}).decode(),
            message_id=message_id,
        )
        for number in range(count)
    ]


def message(
    channel: Channel,
    submission_target: str,
    *,
    message_id: str = "offer",
    body: str = "Hi {{ firstName }}",
) -> Message:
    subject = "An offer" if channel in (Channel.EMAIL, Channel.PUSH) else None
    return Message(message_id, channel, submission_target, body, subject)


async def launch(
    outrider: Outrider,
    messages: Iterable[Message],
    recipients: Iterable[Recipient],
    *,
    batch_size: int = 100,
    local_launch: LocalLaunch | None = None,
    rollout: tuple[RolloutStep, ...] = (),
    pause_on: PauseOn | None = None,
    winner: WinnerRule | None = None,
) -> RunId:
    """Create a campaign of these messages and deploy its launch."""
    definition = CampaignDefinition(
        "test",
        (LAUNCH,),
        tuple(messages),
        batch_size,
        None if local_launch is None else local_launch.begins_at,
        pause_on=pause_on,
        local_launch=local_launch,
        rollout=rollout,
        winner=winner,
    )
    campaign_id, _ = await outrider.deployer.create(DEFAULT_SCOPE, definition, recipients, ACTOR)
    started = await outrider.phase_controller.control(
        DEFAULT_SCOPE, campaign_id, LAUNCH, Control(Action.START, ACTOR)
    )
    assert started.run_id is not None
    return started.run_id


async def observe(outrider: Outrider, run_id: RunId) -> tuple[RunRecord, Accounting]:
    return await outrider.store.read(accountings.run_with_accounting(DEFAULT_SCOPE, run_id))


async def until_terminal(outrider: Outrider, run_id: RunId, *, seconds: float = 60) -> Accounting:
    """Watch a run to its end; the accounting must add up at every check."""
    async with asyncio.timeout(seconds):
        while True:
            run, accounting = await observe(outrider, run_id)
            assert accounting.holds, accounting
            if RunStatus(run.status) in TERMINAL_RUNS:
                return accounting
            await asyncio.sleep(WATCH_SECONDS)
