"""The budget of request bodies: per server, and per workspace. Audit line X11."""

import asyncio

import pytest

from outrider.api.body_budget import BodyBudget
from outrider.api.errors import ApiError
from outrider.domain.ids import Scope, TenantId, WorkspaceId
from outrider.limits.api import ApiLimits

HOG = Scope(TenantId("t1"), WorkspaceId("hog"))
OTHER = Scope(TenantId("t2"), WorkspaceId("other"))
THIRD = Scope(TenantId("t3"), WorkspaceId("third"))


def budget(wait_seconds: float = 0.01) -> BodyBudget:
    return BodyBudget(100, 60, ApiLimits(body_wait_seconds=wait_seconds))


async def test_a_workspace_holds_its_share_of_bodies_and_leaves_the_rest() -> None:
    """X11: three campaigns of 50 MB at once took 2 GB."""
    bodies = budget()
    async with bodies.holding(HOG, 50):
        with pytest.raises(ApiError, match="this workspace has too many") as refused:
            async with bodies.holding(HOG, 20):
                raise AssertionError
        assert (refused.value.status, refused.value.code) == (429, "TOO_MANY_BODIES")
        assert refused.value.headers is not None
        assert "Retry-After" in refused.value.headers
        async with bodies.holding(OTHER, 50):
            pass


async def test_a_body_beyond_what_the_server_holds_is_sent_away() -> None:
    bodies = budget()
    async with bodies.holding(HOG, 50), bodies.holding(OTHER, 50):
        with pytest.raises(ApiError, match="this server has too many") as refused:
            async with bodies.holding(THIRD, 1):
                raise AssertionError
        assert refused.value.status == 503
        assert refused.value.hint


async def test_a_body_that_does_not_fit_waits_until_it_does() -> None:
    bodies = budget(wait_seconds=60.0)
    entered = asyncio.Event()

    async def hold() -> None:
        async with bodies.holding(HOG, 50):
            entered.set()

    async with bodies.holding(HOG, 50):
        waiting = asyncio.create_task(hold())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not entered.is_set()
    await waiting
    assert entered.is_set()


async def test_one_body_larger_than_the_share_of_its_workspace_is_let_in_alone() -> None:
    bodies = budget()
    async with bodies.holding(HOG, 90):
        with pytest.raises(ApiError):
            async with bodies.holding(HOG, 1):
                raise AssertionError
