"""Rendering for many workspaces: a template bomb costs its own workspace only. Audit line X5."""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import msgspec
import pytest

from outrider.domain.errors import Overloaded
from outrider.domain.ids import Scope, TenantId, WorkspaceId
from outrider.limits.rendering import RENDER_CHILDREN, RENDER_WINDOW_SECONDS
from outrider.ports.renderer import Rendered, RenderProblem
from outrider.rendering.pool import RenderPool
from outrider.rendering.renderer import LIMITS_EXCEEDED, default_limits

LOOP = "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}"
HELLO = "Hi {{ name }}"
ADA = [json.dumps({"name": "Ada"})]

Outcomes = list[Rendered | RenderProblem]


def workspace(name: str) -> Scope:
    return Scope(TenantId(f"tenant of {name}"), WorkspaceId(name))


HOG, OTHER = workspace("hog"), workspace("other")


def pool(item_cpu_seconds: float = 0.2, **given: int) -> RenderPool:
    """Without fuel, nothing but time ends a loop."""
    limits = msgspec.structs.replace(
        default_limits(), fuel=2**60, item_cpu_seconds=item_cpu_seconds
    )
    return RenderPool(limits, window_seconds=3.0, **given)


@pytest.fixture
async def renders() -> AsyncIterator[RenderPool]:
    made = pool()
    yield made
    await made.close()


def bombs(renders: RenderPool, scope: Scope, count: int) -> list[asyncio.Task[Outcomes]]:
    """Windows of three items, each of another template."""
    return [
        asyncio.create_task(renders.render(scope, None, f"{LOOP}{number}", ADA * 3, html=False))
        for number in range(count)
    ]


async def test_a_line_of_template_bombs_holds_up_no_other_workspace(renders: RenderPool) -> None:
    """X5: another tenant's preview took 160 s behind one tenant's bombs."""
    await renders.render(OTHER, None, HELLO, ADA, html=False)
    waiting = bombs(renders, HOG, 6)
    began = time.monotonic()
    for _ in range(20):
        assert await renders.render(OTHER, None, HELLO, ADA, html=False) == [
            Rendered(None, "Hi Ada")
        ]
    assert time.monotonic() - began < 1.0
    assert not any(each.done() for each in waiting[1:])
    for each in waiting:
        assert await each == [LIMITS_EXCEEDED] * 3


async def test_workspaces_with_bombs_share_one_process_and_leave_the_others(
    renders: RenderPool,
) -> None:
    """X5: as many tenants with bombs as there are processes hold up nobody either."""
    hogs = [workspace(f"hog {number}") for number in range(RENDER_CHILDREN + 1)]
    for scope in hogs:
        await asyncio.gather(*bombs(renders, scope, 1))
    again = [task for scope in hogs for task in bombs(renders, scope, 3)[1:]]
    await asyncio.sleep(0)
    began = time.monotonic()
    assert await renders.render(OTHER, None, HELLO, ADA, html=False) == [Rendered(None, "Hi Ada")]
    assert time.monotonic() - began < 1.0
    assert not all(each.done() for each in again)
    await asyncio.gather(*again)


async def test_a_template_that_a_window_was_given_up_over_is_not_tried_again_at_once(
    renders: RenderPool,
) -> None:
    """X5: a campaign of bombs held the worker's jobs for as long as it had windows."""
    window = ADA * 10
    assert await renders.render(HOG, None, LOOP, window, html=False) == [LIMITS_EXCEEDED] * 10
    began = time.monotonic()
    assert await renders.render(HOG, None, LOOP, window, html=False) == [LIMITS_EXCEEDED] * 10
    assert time.monotonic() - began < 0.1
    # The workspace's other templates are rendered as ever.
    assert await renders.render(HOG, None, HELLO, ADA, html=False) == [Rendered(None, "Hi Ada")]


async def test_a_text_that_takes_too_much_processor_ends_long_before_its_window() -> None:
    """X5: each bomb took the whole time of a window, several times over."""
    renders = pool()
    await renders.start()
    began = time.monotonic()
    assert await renders.render(HOG, None, LOOP, ADA, html=False) == [LIMITS_EXCEEDED]
    assert time.monotonic() - began < RENDER_WINDOW_SECONDS / 2
    await renders.close()


async def test_a_workspace_with_too_many_queued_texts_is_asked_to_retry_later() -> None:
    renders = pool(waiting=1)
    waiting = bombs(renders, HOG, 2)
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="too many texts to render"):
        await renders.render(HOG, None, HELLO, ADA, html=False)
    assert await renders.render(OTHER, None, HELLO, ADA, html=False) == [Rendered(None, "Hi Ada")]
    await asyncio.gather(*waiting)
    await renders.close()
