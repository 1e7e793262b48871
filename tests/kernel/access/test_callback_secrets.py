"""Callback secrets: one a workspace, the same in every process, as Standard Webhooks spells it."""

import asyncio
import base64
from os import urandom

from outrider.domain.ids import DEFAULT_SCOPE, Scope, TenantId, WorkspaceId
from outrider.kernel.access.callback_secrets import PREFIX, SECRET_BYTES, CallbackSecrets
from outrider.ports.store import Store
from outrider.testing.clock import FakeClock
from tests.support.foundations import foundation

OTHER = Scope(
    TenantId("00000000-0000-0000-0000-00000000000a"),
    WorkspaceId("00000000-0000-0000-0000-00000000000b"),
)


def one_process(store: Store) -> CallbackSecrets:
    return CallbackSecrets(foundation(store, clock=FakeClock()), urandom)


async def test_processes_that_first_need_a_secret_at_once_have_the_same(store: Store) -> None:
    found = await asyncio.gather(*(one_process(store).secret_of(DEFAULT_SCOPE) for _ in range(5)))
    assert len(set(found)) == 1
    assert len(found[0]) == SECRET_BYTES


async def test_each_workspace_has_its_own_secret(store: Store) -> None:
    secrets = one_process(store)
    assert await secrets.secret_of(DEFAULT_SCOPE) != await secrets.secret_of(OTHER)


async def test_a_receiver_is_shown_what_callbacks_are_signed_with(store: Store) -> None:
    text = await one_process(store).text_of(DEFAULT_SCOPE)
    assert text.startswith(PREFIX)
    secret = base64.b64decode(text.removeprefix(PREFIX))
    assert secret == await one_process(store).secret_of(DEFAULT_SCOPE)
