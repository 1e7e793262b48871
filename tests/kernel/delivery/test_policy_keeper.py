"""The policy keeper: what a workspace's messages wait for, on record and soon heard of by all."""

from outrider.documents.policy import parse_policy
from outrider.domain.ids import DEFAULT_SCOPE, Scope, WorkspaceId
from outrider.domain.screen_policies import ScreenPolicies
from outrider.kernel.delivery.policy_keeper import PolicyKeeper
from outrider.ports.store import Store
from outrider.testing.clock import FakeClock
from tests.support.foundations import foundation
from tests.support.raw_sql import raw_sql
from tests.support.workflow_scene import NOON

NIGHT = b'{"timeZone": "Europe/Amsterdam", "quietHours": {"from": "21:00", "to": "08:00"}}'


async def test_a_policy_belongs_to_its_workspace_is_audited_and_soon_known_elsewhere(
    store: Store, database: str
) -> None:
    clock = FakeClock(NOON)
    keeper = PolicyKeeper(foundation(store, clock=clock))
    elsewhere = PolicyKeeper(foundation(store, clock=clock))
    other = Scope(DEFAULT_SCOPE.tenant_id, WorkspaceId("00000000-0000-7000-8000-0000000000ff"))
    assert await elsewhere.lately(DEFAULT_SCOPE) == ScreenPolicies()
    await keeper.put(DEFAULT_SCOPE, parse_policy(NIGHT), "test")
    assert (await keeper.lately(DEFAULT_SCOPE)).quiet_hours is not None
    assert await elsewhere.lately(DEFAULT_SCOPE) == ScreenPolicies()
    clock.advance(1.0)
    assert await elsewhere.lately(DEFAULT_SCOPE) == await keeper.get(DEFAULT_SCOPE)
    assert await elsewhere.get(other) == ScreenPolicies()
    async with raw_sql(database) as raw:
        [(actor,)] = await raw.run(
            "SELECT actor FROM campaign_audit_log WHERE event = 'workflow_policy.replaced'"
        )
    assert actor == "test"
