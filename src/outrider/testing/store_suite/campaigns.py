"""Conformance: campaigns are created whole or not at all, and deployed once, as queued work."""

from collections.abc import Iterator

import msgspec
import pytest

from outrider.domain.campaign_states import CampaignState
from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import (
    InvalidInput,
    InvalidTransition,
    NotFound,
    PreconditionFailed,
    StoreRefused,
)
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, Scope
from outrider.domain.recipients import AddressKind, Recipient, address_kind, recipient
from outrider.domain.states import Channel, PhaseState
from outrider.kernel.transactions import (
    audit_trail,
    campaigns,
    contract_documents,
    ledger,
    paging,
    run_records,
)
from outrider.kernel.transactions.overview import overview_page
from outrider.limits.campaigns import IMPORT_WINDOW_ITEMS
from outrider.ports.store import Store
from outrider.testing.launches import message, people
from outrider.testing.store_suite.workshop import CONTRACT, ELSEWHERE, MOST, SMS, Workshop, at


async def _listed(store: Store, scope: Scope) -> list[CampaignId]:
    page = await store.read(overview_page(scope, paging.LAST, 10))
    return [line.id for line in page.campaigns]


class CampaignConformance:
    async def test_a_campaign_is_created_whole(self, store: Store) -> None:
        shop = Workshop(store)
        campaign_id = await shop.campaign(3)
        record = await store.read(campaigns.campaign(DEFAULT_SCOPE, campaign_id))
        assert (record.name, record.audience_size, record.last_sequence) == ("suite", 3, 0)
        (phase,) = await store.read(campaigns.phases_of(campaign_id))
        assert (phase.phase, phase.state, phase.run_id) == (LAUNCH, "not_started", None)
        (asset,) = await store.read(campaigns.assets_of(campaign_id))
        assert (asset.message, asset.version) == (SMS, 1)
        (entry,) = await store.read(
            audit_trail.audit_of_campaign(DEFAULT_SCOPE, campaign_id, paging.FIRST, MOST)
        )
        assert entry.event == "campaign.created"
        assert msgspec.json.decode(entry.detail) == {"recipients": 3, "messages": 1}

    async def test_a_mistake_midway_through_the_audience_leaves_nothing(self, store: Store) -> None:
        shop = Workshop(store)

        def audience() -> Iterator[Recipient]:
            yield from people(IMPORT_WINDOW_ITEMS + 1)
            raise InvalidInput("line 2,003 is wrong")

        with pytest.raises(InvalidInput, match="line 2,003"):
            await shop.campaign(audience())
        assert await _listed(store, DEFAULT_SCOPE) == []

    async def test_a_duplicate_recipient_refuses_the_whole_campaign(self, store: Store) -> None:
        shop = Workshop(store)
        with pytest.raises(StoreRefused):
            await shop.campaign([*people(2), *people(1)])
        assert await _listed(store, DEFAULT_SCOPE) == []

    async def test_a_campaign_is_unknown_in_another_workspace(self, store: Store) -> None:
        campaign_id = await Workshop(store).campaign(1)
        with pytest.raises(NotFound):
            await store.read(campaigns.campaign(ELSEWHERE, campaign_id))
        assert await _listed(store, ELSEWHERE) == []

    async def test_campaigns_are_listed_newest_first_in_pages(self, store: Store) -> None:
        shop = Workshop(store)
        created = sorted([await shop.campaign(1) for _ in range(3)], reverse=True)
        first = await store.read(overview_page(DEFAULT_SCOPE, paging.LAST, 2))
        assert first.next is not None
        rest = await store.read(overview_page(DEFAULT_SCOPE, first.next, 2))
        assert rest.next is None
        assert [line.id for line in [*first.campaigns, *rest.campaigns]] == created
        assert {line.state for line in first.campaigns} == {CampaignState.NOT_STARTED}

    async def test_an_email_differing_only_in_case_is_a_duplicate(self, store: Store) -> None:
        flags = await _duplicates(
            store,
            Channel.EMAIL,
            [
                recipient("a", email="Ada@example.test"),
                recipient("b", email="ADA@EXAMPLE.TEST"),
                recipient("c", email="bob@example.test"),
            ],
        )
        assert flags == {"a": 0, "b": AddressKind.EMAIL, "c": 0}

    async def test_each_kind_of_address_is_compared_on_its_own(self, store: Store) -> None:
        flags = await _duplicates(
            store,
            Channel.SMS,
            [
                recipient("a", phone="+447700900001", push_token="token-1"),
                recipient("b", phone="+447700900001", push_token="token-2"),
                recipient("c", phone="+447700900003", push_token="token-2"),
            ],
        )
        assert flags == {"a": 0, "b": AddressKind.PHONE, "c": AddressKind.PUSH_TOKEN}

    async def test_push_tokens_differing_in_case_are_two_devices(self, store: Store) -> None:
        audience = [recipient("a", push_token="Token"), recipient("b", push_token="token")]
        assert await _duplicates(store, Channel.PUSH, audience) == {"a": 0, "b": 0}

    async def test_an_address_may_get_two_different_messages(self, store: Store) -> None:
        audience = [
            recipient("a", phone="+447700900001", message_id="offer"),
            recipient("b", phone="+447700900001", message_id="reminder"),
            recipient("c", phone="+447700900001", message_id="offer"),
        ]
        flags = await _duplicates(store, Channel.SMS, audience)
        assert flags["a"] == 0
        assert flags["c"] == AddressKind.PHONE

    async def test_one_message_after_all_messages_is_a_duplicate(self, store: Store) -> None:
        audience = [
            recipient("a", phone="+447700900001"),
            recipient("b", phone="+447700900001", message_id="offer"),
        ]
        flags = await _duplicates(store, Channel.SMS, audience)
        assert flags == {"a": 0, "b": AddressKind.PHONE}

    async def test_invalid_addresses_are_not_compared(self, store: Store) -> None:
        audience = [recipient("a", phone="nowhere"), recipient("b", phone="nowhere")]
        assert await _duplicates(store, Channel.SMS, audience) == {"a": 0, "b": 0}

    async def test_deploying_writes_queued_rows_and_few_of_them(self, store: Store) -> None:
        shop = Workshop(store)
        campaign_id = await shop.campaign(1_000)
        run_id = await shop.deploy(campaign_id)
        run = await store.read(run_records.run(DEFAULT_SCOPE, run_id))
        assert (run.status, run.intended, run.started_at) == ("queued", 1_000, None)
        assert await shop.jobs_by_status(run_id) == {"queued": 10}
        assert await shop.items(run_id) == {}
        assert (await shop.accounting(run_id)).waiting == 1_000

    async def test_deploying_starts_the_phase_with_its_event_and_sequence(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        campaign_id = await shop.campaign(1)
        run_id = await shop.deploy(campaign_id)
        (phase,) = await store.read(campaigns.phases_of(campaign_id))
        assert (phase.state, phase.run_id) == (PhaseState.IN_PROGRESS, run_id)
        record = await store.read(campaigns.campaign(DEFAULT_SCOPE, campaign_id))
        assert record.last_sequence == 1
        assert await shop.audit(run_id) == [
            ("run.deployed", {"phase": "launch", "intended": 1, "jobs": 1})
        ]

    async def test_a_second_deploy_is_a_conflict_and_writes_nothing(self, store: Store) -> None:
        shop = Workshop(store)
        campaign_id = await shop.campaign(1)
        run_id = await shop.deploy(campaign_id)
        with pytest.raises(InvalidTransition, match="in_progress"):
            await shop.deploy(campaign_id)
        runs = await store.read(run_records.runs_of(campaign_id))
        assert [run.id for run in runs] == [run_id]
        assert len(await shop.claim(most=MOST)) == 1

    async def test_a_campaign_without_recipients_is_not_deployed(self, store: Store) -> None:
        shop = Workshop(store)
        campaign_id = await shop.campaign([])
        with pytest.raises(PreconditionFailed, match="its audience is empty"):
            await shop.deploy(campaign_id)
        (phase,) = await store.read(campaigns.phases_of(campaign_id))
        assert phase.state == PhaseState.NOT_STARTED

    async def test_each_message_gets_its_own_jobs_and_members(self, store: Store) -> None:
        shop = Workshop(store)
        messages = [
            message(Channel.SMS, CONTRACT.submission_target, message_id=name)
            for name in ("offer", "reminder")
        ]
        audience = [
            *people(2, prefix="all"),
            *people(3, prefix="offer", message_id="offer"),
        ]
        run_id = await shop.launch(audience, messages=messages)
        counts = {}
        for job in await shop.claim(most=MOST):
            context = await shop.context(job)
            members = await store.read(ledger.members(context, AddressKind.PHONE))
            assert len(members) == job.item_count
            counts[context.asset.message.id] = job.item_count
        assert counts == {"offer": 5, "reminder": 2}
        assert (await shop.accounting(run_id)).intended == 7

    async def test_a_contract_is_stored_once_however_often_it_is_used(self, store: Store) -> None:
        shop = Workshop(store)
        for _ in range(2):
            await shop.launch(1)
        claimed = await shop.claim(most=MOST)
        assert len({job.contract_id for job in claimed}) == 1
        text = await store.read(contract_documents.contract_document(claimed[0].contract_id))
        assert CONTRACT.gateway_url in text

    async def test_work_scheduled_for_later_is_not_claimed_before(self, store: Store) -> None:
        shop = Workshop(store)
        campaign_id = await shop.campaign(1)
        await shop.deploy(campaign_id, scheduled_for=at(60))
        assert await shop.claim(now=at(59.999)) == []
        (job,) = await shop.claim(now=at(60))
        assert job.scheduled_for == at(60)

    async def test_an_impossible_id_is_simply_not_found(self, store: Store) -> None:
        with pytest.raises(NotFound):
            await store.read(campaigns.campaign(DEFAULT_SCOPE, CampaignId("nonsense")))


async def _duplicates(store: Store, channel: Channel, audience: list[Recipient]) -> dict[str, int]:
    """The members that the first message goes to, with the kinds they are duplicates on."""
    shop = Workshop(store)
    messages = [
        message(channel, CONTRACT.submission_target, message_id=name)
        for name in ("offer", "reminder")
    ]
    await shop.launch(audience, messages=messages)
    found: dict[str, int] = {}
    for job in await shop.claim(most=MOST):
        context = await shop.context(job)
        members = await store.read(ledger.members(context, address_kind(channel)))
        found |= {member.recipient_id: member.duplicate for member in members}
    return found
