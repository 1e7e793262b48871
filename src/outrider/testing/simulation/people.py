"""What people and their programs do in a world: messages, events, controls, opt-outs, verdicts.

Each is one happening of the plan, draws for itself, and takes no for an answer: a run that has
ended cannot be paused. What only a person can settle, one settles, truthfully.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH
from outrider.domain.emissions import Emission
from outrider.domain.errors import OutriderError
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, OutboxId, RunId
from outrider.domain.keys import KeyId, Principal
from outrider.domain.phases import Action
from outrider.domain.recipients import Recipient
from outrider.domain.rollouts import RolloutStep
from outrider.domain.screen_policies import FrequencyCap, QuietHours, ScreenPolicies, WhenReached
from outrider.domain.signals import AskedSignal, Signal
from outrider.domain.states import Channel
from outrider.domain.suppressions import OptOut
from outrider.domain.workflows import Delay, RecipientConfig
from outrider.domain.written_workflows import WrittenRule, WrittenStep
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.phase_controls import Control, ControlAnswer, RerunScope
from outrider.stores.sqlite.values import time_to_text
from outrider.testing.launches import launch, message, observe, people
from outrider.testing.simulation.plan import Happening, Plan, What
from outrider.testing.simulation.providers import Provider
from outrider.testing.simulation.virtual_time import moment
from outrider.testing.simulation.world import World, retried

ACTOR = "simulation"
TRIGGER = "order_placed"
PERSON_SECONDS = 8.0
"""How long a doubt waits for a person, who then asks the provider in another way."""
PEOPLE_LEAST, PEOPLE_MOST = 3, 24
AT_ONCE_MOST = 4
QUIET_MINUTES = 1
ROLLOUT_RATE = 0.25
CHANNELS = {"sms": Channel.SMS, "push": Channel.PUSH, "smtp": Channel.EMAIL}
EVERYBODY = people(PEOPLE_MOST)
TEXTS = ("Hi", "Your parcel has left.")
"""So few that messages to one address are alike: a provider may have to tell them apart."""
OPERATOR = Principal(DEFAULT_SCOPE, KeyId("operator"), "operator", frozenset())


@dataclass
class People:
    world: World
    server: Outrider
    runs: list[RunId] = field(default_factory=list)
    intents: set[str] = field(default_factory=set)
    events: set[str] = field(default_factory=set)
    everyone_again: set[CampaignId] = field(default_factory=set)
    """Campaigns that were told to reach everybody a second time."""
    has_rule: bool = False

    async def begin(self, plan: Plan) -> None:
        await self.server.registry_follower.refresh()
        await self.server.bus_keeper.register()
        for happening in plan.of(What.POLICY):
            await self._set_policy(happening.draws())
        if plan.of(What.EVENTS):
            await self._write_rule()
        for happening in plan.of(What.LAUNCH):
            await self._launch(happening)

    async def _set_policy(self, draws: random.Random) -> None:
        cap = FrequencyCap(draws.randint(1, 3), 1, WhenReached.SKIP)
        quiet = QuietHours(0, QUIET_MINUTES)
        policies = draws.choice([
            ScreenPolicies(frequency_cap=cap), ScreenPolicies(frequency_cap=cap),
            ScreenPolicies(quiet_hours=quiet),
        ])  # fmt: skip
        await self.server.policy_keeper.put(DEFAULT_SCOPE, policies, ACTOR)
        self.world.witness.policies = policies

    async def _write_rule(self) -> None:
        """Of each event a message at once, one later, and one together with those of others."""
        target = self._texting()
        to_lead = RecipientConfig(include_lead_contact=True)
        steps = tuple(
            WrittenStep(order, Channel.SMS, "Hi", submission_target=target, recipients=to_lead,
                        timing=Delay(delay), digest_seconds=digest)
            for order, delay, digest in ((1, 0.0, None), (2, 3.0, None), (3, 0.0, 5))
        )  # fmt: skip
        rule = WrittenRule(TRIGGER, Channel.SMS, "lead", steps=steps)
        await self.server.rule_keeper.apply(DEFAULT_SCOPE, [rule], ACTOR, prune=False)

    def _texting(self) -> str:
        return next(each.name for each in self.world.providers.values()
                    if each.gateway_type == "sms")  # fmt: skip

    async def _launch(self, happening: Happening) -> None:
        draws = happening.draws()
        provider = draws.choice(list(self.world.providers.values()))
        rollout = (RolloutStep(30, 0.1), RolloutStep(100)) if draws.random() < ROLLOUT_RATE else ()
        recipients = people(draws.randint(PEOPLE_LEAST, PEOPLE_MOST), prefix=happening.name)
        run_id = await launch(
            self.server,
            [message(CHANNELS[provider.gateway_type], provider.name, body=f"Hi {happening.name}")],
            recipients,
            batch_size=draws.randint(2, 12),
            rollout=rollout,
        )
        self._watch(run_id, len(recipients))

    def _watch(self, run_id: RunId, intended: int) -> None:
        if run_id not in self.runs:
            self.runs.append(run_id)
        self.world.witness.intended[run_id] = intended

    async def do(self, happening: Happening) -> None:
        draws = happening.draws()
        match happening.what:
            case What.INTENTS:
                await self._submit(happening.name, draws)
            case What.EVENTS:
                await self._emit(happening.name, draws)
            case What.OPT_OUT:
                await self._opt_out(draws)
            case What.PAUSE:
                await self._pause(draws)
            case What.STOP:
                await self._stop(draws)
            case What.RETRY:
                await self._again(draws, Action.RETRY, None)
            case What.RERUN:
                await self._again(draws, Action.RERUN, draws.choice(list(RerunScope)))
            case What.RETRY_STEP:
                await self._retry_step(happening.name, draws)
            case What.ADVANCE:
                await self._signal(happening.name, draws, Signal.ADVANCE)
            case _:
                raise AssertionError(f"nobody does {happening.what}")

    async def _submit(self, name: str, draws: random.Random) -> None:
        provider = draws.choice(list(self.world.providers.values()))
        for number in range(draws.randint(1, AT_ONCE_MOST)):
            payload = _payload(provider, draws.choice(EVERYBODY), draws.choice(TEXTS))
            given = Submission(f"{name}-{number}", provider.name, payload)
            for _ in range(draws.choice([1, 1, 2])):
                await retried(lambda each=given: self.server.submissions.submit(  # type: ignore[misc]
                    DEFAULT_SCOPE, each))  # fmt: skip
            self.intents.add(given.intent_id)

    async def _emit(self, name: str, draws: random.Random) -> None:
        for number in range(draws.randint(1, AT_ONCE_MOST)):
            who = draws.choice(EVERYBODY)
            lead = {"id": who.id, "phone": who.phone, "email": who.email}
            emission = Emission(f"{name}-{number}", TRIGGER, {"lead": lead})
            for _ in range(draws.choice([1, 1, 2])):
                await retried(lambda each=emission: self.server.event_intake.emit(  # type: ignore[misc]
                    DEFAULT_SCOPE, each))  # fmt: skip
            self.events.add(emission.event_id)

    async def _opt_out(self, draws: random.Random) -> None:
        who = draws.choice(EVERYBODY)
        channel, address = draws.choice([
            (Channel.SMS, who.phone), (Channel.SMS, who.phone), (Channel.EMAIL, who.email),
        ])  # fmt: skip
        opt_out = OptOut("asked to")
        keeper = self.server.suppression_keeper
        await retried(lambda: keeper.add(DEFAULT_SCOPE, channel, [str(address)], opt_out, ACTOR))

    async def _pause(self, draws: random.Random) -> None:
        if await self._control(run_id := self._any_run(draws), Action.PAUSE) is None:
            return
        quiet = self.world.witness.quiet_runs
        quiet.add(run_id)
        await asyncio.sleep(draws.uniform(0.5, 8.0))
        quiet.discard(run_id)
        await self._control(run_id, Action.RESUME)

    async def _stop(self, draws: random.Random) -> None:
        if await self._control(run_id := self._any_run(draws), Action.STOP) is not None:
            self.world.witness.quiet_runs.add(run_id)

    async def _again(self, draws: random.Random, action: Action, scope: RerunScope | None) -> None:
        """A new run, for those the last one did not reach, or for everybody."""
        run_id = self._any_run(draws)
        campaign_id = await self._campaign_of(run_id)
        if scope is RerunScope.ALL:
            self.everyone_again.add(campaign_id)
        answer = await self._control(run_id, action, scope)
        if answer is not None and answer.run_id is not None:
            run, accounting = await retried(lambda: observe(self.server, answer.run_id))  # type: ignore[arg-type]
            self._watch(run.id, accounting.intended)

    async def _retry_step(self, name: str, draws: random.Random) -> None:
        jobs = self.world.rows(
            "SELECT id, run_id FROM job_queue WHERE run_id IS NOT NULL AND failed > 0 ORDER BY id"
        )
        if jobs:
            step_id, run_id = draws.choice(jobs)
            asked = AskedSignal(Signal.RETRY_STEP, name, step_id)
            await _allowed(lambda: self.server.run_signaller.signal(OPERATOR, run_id, asked))

    async def _signal(self, name: str, draws: random.Random, signal: Signal) -> None:
        run_id, asked = self._any_run(draws), AskedSignal(signal, name)
        await _allowed(lambda: self.server.run_signaller.signal(OPERATOR, run_id, asked))

    def _any_run(self, draws: random.Random) -> RunId:
        return draws.choice(self.runs)

    async def _campaign_of(self, run_id: RunId) -> CampaignId:
        run, _ = await retried(lambda: observe(self.server, run_id))
        return run.campaign_id

    async def _control(
        self, run_id: RunId, action: Action, scope: RerunScope | None = None
    ) -> ControlAnswer | None:
        """The answer if it is so now; a run that has ended refuses it."""
        control = Control(action, ACTOR, scope=scope, confirm=scope is RerunScope.ALL,
                          run_id=None if scope or action is Action.RETRY else run_id)  # fmt: skip
        campaign_id = await self._campaign_of(run_id)
        controller = self.server.phase_controller
        return await _allowed(
            lambda: controller.control(DEFAULT_SCOPE, campaign_id, LAUNCH, control)
        )

    async def settle_by_hand(self) -> None:
        rows = self.world.rows(
            "SELECT o.id FROM channel_outbox o JOIN doubt_checks c ON c.outbox_id = o.id"
            " WHERE o.doubted_at IS NOT NULL AND c.settles = 'person' AND c.doubted_at < ?",
            time_to_text(moment(asyncio.get_running_loop().time() - PERSON_SECONDS)),
        )
        for (outbox_id,) in rows:
            arrived = self.world.witness.arrived(OutboxId(outbox_id))
            verdict = DoubtVerdict.SENT if arrived else DoubtVerdict.FAILED
            try:
                await self.server.doubt_resolver.resolve(
                    DEFAULT_SCOPE, OutboxId(outbox_id), verdict, "asked by phone", "person"
                )
            except OutriderError:
                # It was settled meanwhile, or the database is away.
                continue


async def _allowed(ask: Callable[[], Awaitable[ControlAnswer | object]]) -> ControlAnswer | None:
    try:
        answer = await retried(ask)
    except OutriderError:
        return None
    return answer if isinstance(answer, ControlAnswer) else None


def _payload(provider: Provider, who: Recipient, text: str) -> dict[str, object]:
    match provider.gateway_type:
        case "push":
            return {"token": who.push_token, "title": "News", "body": text}
        case "smtp":
            return {"to": who.email, "subject": "News", "body": text}
        case _:
            return {"to": who.phone, "message": text}
