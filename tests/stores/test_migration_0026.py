"""Migration 0026 on a database in use: everybody in an older audience is still found by address."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from outrider.bootstrap import make_store
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.people import Address, PersonKind
from outrider.domain.recipients import recipient
from outrider.domain.states import Channel
from outrider.kernel.transactions.people import memberships
from outrider.stores.migrations import Migration
from outrider.stores.postgres import store as postgres
from outrider.testing.launches import ACTOR, message, people, target
from tests.support.old_databases import copy_rows, migrate_to, other_database
from tests.support.whole_runs import opened

pytestmark = pytest.mark.empty_database

__all__ = ["other_database"]

SMS = target("sms", "noop", "noop:")
MANY = 1_203
"""More than one page of the migration's has, and than there are buckets."""
FOREIGN = recipient("foreign", email="Ünal@Example.test", phone="+44770090", push_token="TokeN")


def before(migrations: Sequence[Migration], name: str) -> int:
    return [each.name for each in migrations].index(name)


async def test_everyone_in_an_older_audience_is_found_by_every_address(
    database: str, other_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = [*people(MANY), FOREIGN]
    definition = CampaignDefinition("Older", (LAUNCH,), (message(Channel.SMS, "sms"),), 500)
    async with opened(other_database, tmp_path, SMS) as earlier:
        await earlier.deployer.create(DEFAULT_SCOPE, definition, members, ACTOR)
    await migrate_to(database, before(postgres.MIGRATIONS, "0026_address_pages"), monkeypatch)
    await copy_rows(other_database, database, ["campaigns", "audience_members"])
    store = make_store(database)
    assert "0026_address_pages" in await store.migrate()
    for each in (members[0], members[999], members[1_000], members[-2], FOREIGN):
        for kind, text in (
            (PersonKind.EMAIL, each.email),
            (PersonKind.PHONE, each.phone),
            (PersonKind.PUSH_TOKEN, each.push_token),
        ):
            found = await store.read(memberships(DEFAULT_SCOPE, Address(kind, text or "")))
            assert [member.recipient_id for member in found] == [each.id]
    await store.close()
