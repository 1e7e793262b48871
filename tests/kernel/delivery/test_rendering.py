"""Rendering through real child processes: what goes wrong in one never reaches the worker."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec
import pytest

from outrider.domain.errors import OutriderError
from outrider.limits.campaigns import BODY_MAX_BYTES
from outrider.limits.rendering import RENDER_DEATHS_PER_WINDOW
from outrider.ports.renderer import Rendered, RenderProblem
from outrider.rendering import renderer as renderer_module
from outrider.rendering.checker import check_template
from outrider.rendering.child import RenderRequest, WindowRenderer
from outrider.rendering.renderer import (
    LIMITS_EXCEEDED,
    ProcessRenderer,
    default_limits,
)

BOMB = "{% set x = seed %}" + "{% set x = x ~ x %}" * 40 + "{{ x|length }}"
ENDLESS = "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}"
SMALL = msgspec.structs.replace(default_limits(), memory_bytes=192 * 1024 * 1024)


@pytest.fixture
async def renderer() -> AsyncIterator[ProcessRenderer]:
    renderer = ProcessRenderer(SMALL)
    yield renderer
    await renderer.close()


async def render(
    renderer: ProcessRenderer,
    body: str,
    *attributes: Mapping[str, object],
    subject: str | None = None,
    html: bool = False,
) -> list[Rendered | RenderProblem]:
    texts = [json.dumps(one) for one in attributes]
    return await renderer.render(subject, body, texts, html=html)


def environment_of(pid: int | None) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def detail(outcome: Rendered | RenderProblem) -> str:
    assert isinstance(outcome, RenderProblem)
    return outcome.detail


async def test_each_item_is_rendered_with_its_own_attributes(renderer: ProcessRenderer) -> None:
    outcomes = await render(
        renderer, "Hi {{ name }}", {"name": "Ada"}, {"name": "Björk"}, subject="For {{ name }}"
    )
    assert outcomes == [Rendered("For Ada", "Hi Ada"), Rendered("For Björk", "Hi Björk")]


async def test_a_text_without_markers_needs_no_process(renderer: ProcessRenderer) -> None:
    outcomes = await render(renderer, "Hello }} there", {}, {}, subject="Plain")
    assert outcomes == [Rendered("Plain", "Hello }} there")] * 2
    assert renderer.child_pid is None


async def test_an_empty_window_has_no_outcomes(renderer: ProcessRenderer) -> None:
    assert await render(renderer, "Hi {{ name }}") == []


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("Hi {{ firstName }}", "firstName"),
        ("Hi {{ person.firstName }}", "person.firstName"),
        ("{{ orders[0].item.price }}", "orders[0].item"),
        ("{% if absent %}x{% endif %}", "absent"),
    ],
)
async def test_an_undefined_variable_is_named(
    renderer: ProcessRenderer, template: str, name: str
) -> None:
    (outcome,) = await render(renderer, template, {"person": {}, "orders": [{}]})
    assert f"`{name}` is undefined" in detail(outcome)


async def test_null_lists_and_objects_are_not_printed_in_pythons_spelling(
    renderer: ProcessRenderer,
) -> None:
    attributes: dict[str, object] = {"nick": None, "tags": ["a"], "person": {"age": None}}
    for template, name in [
        ("{{ nick }}", "`nick` is null"),
        ("{{ person.age }}", "`person.age` is null"),
        ("{{ tags }}", "`tags` is a list"),
        ("{{ person }}", "`person` is a dict"),
    ]:
        (outcome,) = await render(renderer, template, attributes)
        assert name in detail(outcome)
    printed = await render(renderer, "{{ tags|join(', ') }}{% if nick %}!{% endif %}", attributes)
    assert printed == [Rendered(None, "a")]


async def test_a_syntax_error_is_every_items_problem_and_names_the_line(
    renderer: ProcessRenderer,
) -> None:
    outcomes = await render(renderer, "one\ntwo {% endfoo %}", {}, {})
    assert [detail(outcome) for outcome in outcomes] == [
        "body, line 2: unknown statement endfoo"
    ] * 2
    (outcome,) = await render(renderer, "fine", {}, subject="{{ a b }}")
    assert detail(outcome).startswith("subject, line 1: ")


async def test_one_bad_item_leaves_the_others_rendered(renderer: ProcessRenderer) -> None:
    outcomes = await render(renderer, "Hi {{ name }}", {"name": "Ada"}, {}, {"name": "Bob"})
    assert outcomes[0] == Rendered(None, "Hi Ada")
    assert outcomes[2] == Rendered(None, "Hi Bob")
    assert "`name` is undefined" in detail(outcomes[1])


async def test_a_template_bomb_kills_the_child_and_not_the_worker(
    renderer: ProcessRenderer,
) -> None:
    outcomes = await render(renderer, BOMB, *[{"seed": "aaaa"}] * 50)
    assert outcomes == [LIMITS_EXCEEDED] * 50
    assert await render(renderer, "Hi {{ name }}", {"name": "Ada"}) == [Rendered(None, "Hi Ada")]


async def test_a_window_with_too_many_deadly_items_is_given_up_after_the_last_death_allowed(
    renderer: ProcessRenderer,
) -> None:
    window = [{"seed": ""}] * 200
    # The first death is nobody's in particular; each one after it finds a guilty item.
    deadly = range(50, 50 + RENDER_DEATHS_PER_WINDOW - 1)
    for index in deadly:
        window[index] = {"seed": "aaaa"}
    outcomes = await render(renderer, BOMB, *window)
    assert outcomes[:50] == [Rendered(None, "0")] * 50
    assert outcomes[50:] == [LIMITS_EXCEEDED] * 150


async def test_one_deadly_item_does_not_affect_other_messages(renderer: ProcessRenderer) -> None:
    window = [{"seed": ""}] * 200
    window[57] = {"seed": "aaaa"}
    outcomes = await render(renderer, BOMB, *window)
    assert outcomes.count(LIMITS_EXCEEDED) == 1
    assert outcomes[57] == LIMITS_EXCEEDED


async def test_a_huge_repeat_is_a_problem_of_its_item(renderer: ProcessRenderer) -> None:
    outcomes = await render(renderer, "{{ 'x' * times }}", {"times": 10**12}, {"times": 2})
    assert isinstance(outcomes[0], RenderProblem)
    assert outcomes[1] == Rendered(None, "xx")


async def test_fuel_stops_a_loop_that_would_not_end(renderer: ProcessRenderer) -> None:
    (outcome,) = await render(renderer, ENDLESS, {})
    assert "fuel" in detail(outcome)


async def test_a_window_that_takes_too_long_gets_its_child_killed() -> None:
    limits = msgspec.structs.replace(default_limits(), fuel=2**60)
    # Long enough for a child to start in on a busy machine.
    renderer = ProcessRenderer(limits, window_seconds=2.0)
    began = time.monotonic()
    assert await render(renderer, ENDLESS, {}, {}) == [LIMITS_EXCEEDED] * 2
    assert time.monotonic() - began < 20
    assert await render(renderer, "{{ 1 + 1 }}", {}) == [Rendered(None, "2")]
    await renderer.close()


def test_time_after_a_window_is_not_counted_for_its_last_item() -> None:
    """X5: the limit on processor time is the items', and not that of whoever renders them."""
    renderer = WindowRenderer(default_limits())
    renderer.answer(RenderRequest(None, "{{ n }}", html=False, attributes=['{"n": 1}']))
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


async def test_a_body_that_grew_too_large_is_a_problem(renderer: ProcessRenderer) -> None:
    text = "é" * (BODY_MAX_BYTES // 2)
    outcomes = await render(renderer, "{{ text }}", {"text": text}, {"text": text + "x"})
    assert outcomes[0] == Rendered(None, text)
    assert "larger than" in detail(outcomes[1])


async def test_large_bodies_for_a_whole_window_fit_in_the_childs_memory(
    renderer: ProcessRenderer,
) -> None:
    body = "x" * 250_000 + "{{ name }}"
    outcomes = await render(renderer, body, *[{"name": "Ada"}] * 500)
    assert all(isinstance(outcome, Rendered) for outcome in outcomes)


async def test_an_attribute_cannot_break_the_line_of_a_subject(renderer: ProcessRenderer) -> None:
    (outcome,) = await render(
        renderer, "Hi", {"name": "x\r\nBcc: all@example.test"}, subject="For {{ name }}"
    )
    assert "line break" in detail(outcome)


async def test_html_is_escaped_in_bodies_and_only_there(renderer: ProcessRenderer) -> None:
    attributes = {"name": "<b>&"}
    escaped = await render(renderer, "{{ name }}", attributes, subject="{{ name }}", html=True)
    assert escaped == [Rendered("<b>&", "&lt;b&gt;&amp;")]
    assert await render(renderer, "{{ name }}", attributes) == [Rendered(None, "<b>&")]


@pytest.mark.parametrize(
    "escape",
    [
        "{{ ''.__class__ }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ person.__class__.__init__.__globals__ }}",
        "{{ person|attr('__class__') }}",
        "{{ person['__class__'] }}",
        "{{ person.update }}",
        "{{ person.items() }}",
        "{{ tags.append }}",
        "{{ tags.append.__self__ }}",
        "{{ '{0.__class__}'.format(person) }}",
        "{{ debug() }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}{{ os }}",
        "{{ range.__globals__ }}",
    ],
)
async def test_templates_reach_no_python_objects(renderer: ProcessRenderer, escape: str) -> None:
    (outcome,) = await render(renderer, escape, {"person": {"a": 1}, "tags": [1]})
    if isinstance(outcome, Rendered):
        assert not any(sign in outcome.body for sign in ("<class", "built-in", "0x", "root:", "{"))


@pytest.mark.parametrize(
    "attributes",
    ["", "null", "[1]", '{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', '{"a": "\ud800"}',
     '{"a":' + "[" * 10_000 + "]" * 10_000 + "}", "{" * 10_000],
)  # fmt: skip
async def test_attributes_that_are_no_json_object_are_a_problem_of_their_item(
    renderer: ProcessRenderer, attributes: str
) -> None:
    good = '{"a": "\\u0000 ok"}'
    outcomes = await renderer.render(None, "{{ a }}", [good, attributes], html=False)
    assert outcomes[0] == Rendered(None, "\x00 ok")
    assert isinstance(outcomes[1], RenderProblem)


async def test_a_child_killed_between_windows_is_not_noticed(renderer: ProcessRenderer) -> None:
    for _ in range(3):
        assert await render(renderer, "{{ n }}", {"n": 1}) == [Rendered(None, "1")]
        assert renderer.child_pid is not None
        os.kill(renderer.child_pid, signal.SIGKILL)


async def test_windows_of_concurrent_jobs_do_not_mix(renderer: ProcessRenderer) -> None:
    windows = [render(renderer, "{{ n }}", *[{"n": number}] * 20) for number in range(10)]
    for number, outcomes in enumerate(await asyncio.gather(*windows)):
        assert outcomes == [Rendered(None, str(number))] * 20


async def test_a_cancelled_window_leaves_no_answer_for_the_next(renderer: ProcessRenderer) -> None:
    await render(renderer, "{{ n }}", {"n": 0})
    cancelled = asyncio.create_task(render(renderer, ENDLESS + "{{ n }}", *[{"n": 1}] * 20))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert await render(renderer, "{{ n }}", {"n": 2}) == [Rendered(None, "2")]


async def test_closing_ends_the_child(renderer: ProcessRenderer) -> None:
    await render(renderer, "{{ n }}", {"n": 1})
    pid = renderer.child_pid
    assert pid is not None
    await renderer.close()
    assert renderer.child_pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    await renderer.close()


async def test_the_child_sees_nothing_of_the_workers_environment(
    renderer: ProcessRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_ROOT_KEY", "a secret")
    await render(renderer, "{{ n }}", {"n": 1})
    assert b"a secret" not in environment_of(renderer.child_pid)


async def test_a_child_that_cannot_start_is_no_items_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer_module, "child_command", lambda _limits: ["false"])
    renderer = ProcessRenderer()
    with pytest.raises(OutriderError, match="did not start"):
        await render(renderer, "{{ n }}", {"n": 1})
    await renderer.close()


def test_the_child_of_a_killed_worker_ends() -> None:
    worker = """if True:
        import asyncio, os, signal
        from outrider.rendering.renderer import ProcessRenderer
        async def main():
            renderer = ProcessRenderer()
            await renderer.render(None, "{{ n }}", ['{"n": 1}'], html=False)
            print(renderer.child_pid, flush=True)
            input()
            os.kill(os.getpid(), signal.SIGKILL)
        asyncio.run(main())
    """
    with subprocess.Popen(
        [sys.executable, "-c", worker],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None
        ended = os.pidfd_open(int(process.stdout.readline()))
        process.communicate("\n")
    # The descriptor of a process becomes readable when it ends.
    readable, _, _ = select.select([ended], [], [], 10)
    os.close(ended)
    assert readable


def test_checking_a_template_reports_its_syntax_errors() -> None:
    assert check_template("Hi {{ name }}") is None
    assert check_template("no markers") is None
    assert check_template("one\n{% if %}") is not None
    assert str(check_template("one\n{{ a b }}")).startswith("line 2: ")
    assert check_template("x" * 10_000 + "{{ name }}") is None
    assert str(check_template("\n" * 10_000 + "{{ a b }}")).startswith("line 10001: ")


@pytest.mark.parametrize("operator", ["-", "not ", "1+", "1 if 1 else ", "(", "["])
def test_checking_survives_an_expression_that_overflows_the_compilers_stack(operator: str) -> None:
    times = (BODY_MAX_BYTES - 10) // len(operator)
    check_template("{{ " + operator * times + "1 }}")
    check_template("{{ " + operator * (4_000 // len(operator)) + "1 }}")
