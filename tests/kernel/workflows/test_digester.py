"""Digests on both stores: events are collected for one address and told of in one message."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.workflows import DomainEventId, StepId
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.kernel.access.unsubscriber import Unsubscriber
from outrider.kernel.transactions import digests, notifications
from outrider.kernel.transactions.digests import DigestEntry
from outrider.kernel.workflows.digester import STEP_DELETED, Digester
from outrider.kernel.workflows.step_targets import StepTargets
from outrider.limits.kernel import Limits
from outrider.limits.workflows import DIGEST_ENTRIES_MAX
from outrider.ports.renderer import Rendered, RenderProblem
from outrider.ports.store import Store
from outrider.rendering.pool import RenderPool
from tests.support.foundations import foundation
from tests.support.raw_sql import raw_sql
from tests.support.workflow_scene import CONTRACTS, WorkflowScene

SECONDS = 600
BODY = "{{ count }}: {% for each in events %}{{ each.n }} {% endfor %}for {{ recipient.id }}"
SUBJECT = "{{ count }} events, the last is {{ n }}"


class Scene(WorkflowScene):
    def __init__(self, store: Store, database: str, renderer: RenderPool) -> None:
        super().__init__(store, database)
        self.renderer = renderer
        self.contracts = dict(CONTRACTS)
        self.digester = self.another()
        self.step = StepId(self.ids.new())

    def another(self) -> Digester:
        stands_on = foundation(self.store, clock=self.clock, ids=self.ids)
        return Digester(
            stands_on, self.renderer, StepTargets(lambda: self.contracts, GATEWAY_TYPES, {}),
            lambda: self.contracts, lambda _: None, Unsubscriber(stands_on, bytes, None),
            lambda: None,
        )  # fmt: skip

    async def run(self, sql: str) -> list[tuple[Any, ...]]:
        async with raw_sql(self.database) as raw:
            return await raw.run(sql)

    async def add_step(self, body: str = BODY, *, urgent: bool = False) -> None:
        tenant, workspace = DEFAULT_SCOPE
        now = self.clock.now().isoformat()
        rule, flag = self.ids.new(), "true" if urgent else "false"
        await self.run(
            "INSERT INTO workflow_rules (id, tenant_id, workspace_id, trigger_name, channel,"
            f" audience, enabled, urgent, created_at, updated_at) VALUES ('{rule}', '{tenant}',"
            f" '{workspace}', 'quote_sent', 'email', 'lead', true, {flag}, '{now}', '{now}')"
        )
        await self.run(
            "INSERT INTO workflow_steps (id, tenant_id, workspace_id, rule_id, step_order, enabled,"
            " channel, subject, body, timing, recipient_config, digest_seconds, created_at,"
            f" updated_at) VALUES ('{self.step}', '{tenant}', '{workspace}', '{rule}', 1, true,"
            f" 'email', '{SUBJECT}', '{body}', '{{\"delaySeconds\": 0}}', '{{}}', {SECONDS},"
            f" '{now}', '{now}')"
        )

    async def events(self, count: int) -> list[str]:
        """Domain events, for entries to refer to."""
        found = sorted(self.ids.batch(count))
        tenant, workspace = DEFAULT_SCOPE
        now = self.clock.now().isoformat()
        async with raw_sql(self.database) as raw:
            sha256 = raw.blob(bytes(32))
            values = ", ".join(
                f"('{each}', '{tenant}', '{workspace}', '{each}', 'quote_sent', '{now}', '{{}}',"
                f" '{{}}', {sha256}, 'routed', '{now}', '{now}')"
                for each in found
            )
            await raw.run(
                "INSERT INTO domain_events (id, tenant_id, workspace_id, event_id, trigger_name,"
                " occurred_at, subject, variables, fingerprint, status, created_at, updated_at)"
                f" VALUES {values}"
            )
        return found

    def entry(self, event: str, number: int, address: str = "a@example.test") -> DigestEntry:
        lead = {"id": "l-1", "timeZone": "Asia/Tokyo"}
        variables = json.dumps({"n": number, "count": "theirs", "lead": lead})
        return DigestEntry(self.step, "lead", "l-1", address, event, variables, SECONDS)

    async def collect(self, entries: Sequence[DigestEntry]) -> None:
        await self.store.write(digests.collect(DEFAULT_SCOPE, entries, self.ids, self.clock.now()))

    async def letters(self) -> list[dict[str, Any]]:
        rows = await self.run(
            "SELECT payload FROM channel_outbox WHERE status = 'queued' ORDER BY id"
        )
        return [json.loads(payload) for (payload,) in rows]


@pytest.fixture
async def scene(store: Store, database: str) -> AsyncIterator[Scene]:
    renderer = RenderPool()
    made = Scene(store, database, renderer)
    await made.add_step()
    yield made
    await renderer.close()


async def test_events_for_one_address_become_one_message_when_the_time_is_up(
    scene: Scene,
) -> None:
    first, second, third = await scene.events(3)
    other = scene.entry(first, 9, "b@example.test")
    await scene.collect([scene.entry(first, 1), other])
    scene.clock.advance(SECONDS - 1)
    await scene.collect([scene.entry(second, 2), scene.entry(third, 3), scene.entry(first, 1)])
    assert await scene.digester.digest_due() == 0
    scene.clock.advance(1)
    assert await scene.digester.digest_due() == 2
    assert sorted(letter["body"] for letter in await scene.letters()) == [
        "1: 9 for l-1", "3: 1 2 3 for l-1",
    ]  # fmt: skip
    assert {letter["subject"] for letter in await scene.letters()} == {
        "3 events, the last is 3", "1 events, the last is 9",
    }  # fmt: skip
    assert {letter["timeZone"] for letter in await scene.letters()} == {"Asia/Tokyo"}
    assert await scene.digester.digest_due() == 0
    found = await scene.store.read(digests.of_events(DEFAULT_SCOPE, [DomainEventId(third)], 10))
    [(outbox_id, step_id)] = await scene.run(
        "SELECT id, step_id FROM channel_outbox WHERE recipient_address = 'a@example.test'"
    )
    assert [(each.outbox_id, each.error) for each in found] == [(str(outbox_id), None)]
    assert str(step_id) == scene.step


async def test_a_closed_digest_is_followed_by_another_and_repeats_no_event(scene: Scene) -> None:
    first, second = await scene.events(2)
    await scene.collect([scene.entry(first, 1)])
    scene.clock.advance(SECONDS)
    assert await scene.digester.digest_due() == 1
    await scene.collect([scene.entry(first, 1), scene.entry(second, 2)])
    scene.clock.advance(SECONDS)
    assert await scene.digester.digest_due() == 1
    bodies = [letter["body"] for letter in await scene.letters()]
    assert bodies == ["1: 1 for l-1", "1: 2 for l-1"]


async def test_a_thousand_events_for_one_address_are_due_at_once_in_digests_of_five_hundred(
    scene: Scene,
) -> None:
    events = await scene.events(1_001)
    await scene.collect([scene.entry(event, number) for number, event in enumerate(events)])
    assert await scene.digester.digest_due() == 2
    letters = await scene.letters()
    assert [letter["subject"].split()[0] for letter in letters] == [str(DIGEST_ENTRIES_MAX)] * 2
    assert (
        len(await scene.run("SELECT 1 FROM digests WHERE sealed_at IS NULL AND entries = 1")) == 1
    )
    scene.clock.advance(SECONDS)
    assert await scene.digester.digest_due() == 1


async def test_two_routers_and_two_digesters_at_once_send_every_event_once(
    scene: Scene,
) -> None:
    events = await scene.events(60)
    entries = [
        scene.entry(event, number, f"{number % 5}@example.test")
        for number, event in enumerate(events)
    ]
    for part in (entries[:30], entries[30:]):
        await asyncio.gather(scene.collect(part), scene.collect(list(reversed(part))))
        scene.clock.advance(SECONDS)
        taken = await asyncio.gather(scene.digester.digest_due(), scene.another().digest_due())
        assert sum(taken) == 5
    counts = [int(letter["subject"].split()[0]) for letter in await scene.letters()]
    assert counts == [6] * 10


async def test_a_digester_that_dies_at_any_point_still_has_its_digest_sent_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def dies(*_: object, **__: object) -> Any:
        raise Killed

    [event] = await scene.events(1)
    await scene.collect([scene.entry(event, 1)])
    scene.clock.advance(SECONDS)
    for where, name in ((digests, "variables"), (digests, "close"), (notifications, "insert")):
        monkeypatch.setattr(where, name, dies)
        with pytest.raises(Killed):
            await scene.digester.digest_due()
        monkeypatch.undo()
        assert await scene.digester.digest_due() == 0, "its lease has not ended"
        scene.clock.advance(Limits.digester_lease_seconds)
    assert await scene.letters() == []
    assert await scene.digester.digest_due() == 1
    assert len(await scene.letters()) == 1


async def test_a_digester_that_wakes_up_late_writes_nothing_twice(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    [event] = await scene.events(1)
    await scene.collect([scene.entry(event, 1)])
    scene.clock.advance(SECONDS)
    render = scene.renderer.render

    async def slowly(*given: Any, **options: Any) -> list[Rendered | RenderProblem]:
        monkeypatch.undo()
        scene.clock.advance(Limits.digester_lease_seconds)
        assert await scene.another().digest_due() == 1
        return await render(*given, **options)

    monkeypatch.setattr(scene.renderer, "render", slowly)
    assert await scene.digester.digest_due() == 1
    rows = await scene.run("SELECT id FROM channel_outbox")
    assert len(rows) == 1
    assert await scene.run("SELECT outbox_id FROM digests") == rows


async def test_a_digest_of_a_deleted_step_is_closed_and_says_so(scene: Scene) -> None:
    [event] = await scene.events(1)
    await scene.collect([scene.entry(event, 1)])
    await scene.run("DELETE FROM workflow_rules")
    scene.clock.advance(SECONDS)
    assert await scene.digester.digest_due() == 1
    found = await scene.run("SELECT closed_at IS NOT NULL, outbox_id, error FROM digests")
    assert [(bool(closed), *rest) for closed, *rest in found] == [(True, None, STEP_DELETED)]
    assert await scene.run("SELECT 1 FROM channel_outbox") == []


async def test_a_digest_that_cannot_be_rendered_fails_with_the_reason(scene: Scene) -> None:
    [event] = await scene.events(1)
    await scene.run("UPDATE workflow_steps SET body = '{{ surname }}'")
    await scene.collect([scene.entry(event, 1)])
    scene.clock.advance(SECONDS)
    assert await scene.digester.digest_due() == 1
    [(status, reason, error)] = await scene.run("SELECT status, reason, error FROM channel_outbox")
    assert (status, reason) == ("failed", "render_failed")
    assert "surname" in error
    [(closed_with,)] = await scene.run("SELECT error FROM digests WHERE outbox_id IS NOT NULL")
    assert closed_with == error


async def test_a_digest_without_a_target_waits_for_one(scene: Scene) -> None:
    [event] = await scene.events(1)
    await scene.collect([scene.entry(event, 1)])
    scene.clock.advance(SECONDS)
    mail = scene.contracts.pop("mail")
    assert await scene.digester.digest_due() == 1
    [(error,)] = await scene.run("SELECT error FROM digests WHERE closed_at IS NULL")
    assert error.startswith("the registry has no submission target for email")
    scene.contracts["mail"] = mail
    scene.clock.advance(Limits.digester_lease_seconds)
    assert await scene.digester.digest_due() == 1
    assert len(await scene.letters()) == 1


async def test_very_large_events_leave_out_the_oldest_and_are_all_counted(scene: Scene) -> None:
    events = await scene.events(3)
    await scene.collect(
        [
            scene.entry(event, number)._replace(
                variables=json.dumps({"n": number, "filler": "x" * 600_000})
            )
            for number, event in enumerate(events)
        ]
    )
    scene.clock.advance(SECONDS)
    assert await scene.digester.digest_due() == 1
    [letter] = await scene.letters()
    assert letter["body"] == "3: 2 for l-1"
