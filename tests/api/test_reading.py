"""Documents that are read in a process of their own, and what holds for them. Audit X5 and X11."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from outrider.domain.errors import InvalidInput, OutriderError, Overloaded
from outrider.domain.ids import DEFAULT_SCOPE, Scope, TenantId, WorkspaceId
from outrider.limits.reading import READ_HERE_MAX_BYTES, READINGS_WAITING_MAX
from outrider.reading import reader as reader_module
from outrider.reading.reader import DocumentReader
from outrider.rendering.checker import TemplateChecker

OTHER = Scope(TenantId("another"), WorkspaceId("another"))
PHASES = ("launch",)
LONG = "x" * 5_000 + "{{ name }}"


def written(folder: Path, people: int, body: str = "Hi {{ name }}", **recipient: object) -> Path:
    path = folder / "campaign.json"
    message = {"id": "m", "channel": "sms", "submissionTarget": "noop", "body": body}
    recipients = [{"id": f"r{number}", **recipient} for number in range(people)]
    document = {"name": "Read", "messages": [message], "audience": {"recipients": recipients}}
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("people", [3, 20_000])
async def test_a_campaign_reads_the_same_here_and_in_a_process(tmp_path: Path, people: int) -> None:
    path = written(tmp_path, people, phone="+447700900001", attributes={"name": "Ada"})
    assert (path.stat().st_size > READ_HERE_MAX_BYTES) == (people > 3)
    async with DocumentReader().campaign(DEFAULT_SCOPE, path, PHASES) as (definition, recipients):
        found = list(recipients)
    assert (definition.name, definition.messages[0].body) == ("Read", "Hi {{ name }}")
    assert [each.id for each in found] == [f"r{number}" for number in range(people)]
    assert (found[-1].phone, found[-1].attributes) == ("+447700900001", '{"name":"Ada"}')


async def test_every_mistake_comes_back_from_the_process(tmp_path: Path) -> None:
    path = written(tmp_path, 20_000, body="{{ a b }}", fone="+447700900001")
    with pytest.raises(InvalidInput, match="20001 problems") as refused:
        async with DocumentReader().campaign(DEFAULT_SCOPE, path, PHASES):
            raise AssertionError
    paths = [problem.path for problem in refused.value.problems]
    assert paths[:2] == ["messages[0].body", "audience.recipients[0].fone"]


async def test_a_document_that_needs_too_much_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X11: what a document takes to be read is bounded, and not the server's."""
    path = tmp_path / "campaign.json"
    path.write_text('{"name": [' + "[]," * 30_000_000 + "[]]}")
    monkeypatch.setattr(reader_module, "READ_HERE_MAX_BYTES", 0)
    with pytest.raises(InvalidInput, match="more memory") as refused:
        async with DocumentReader().campaign(DEFAULT_SCOPE, path, PHASES):
            raise AssertionError
    assert refused.value.hint is not None
    assert "/audience" in refused.value.hint


async def test_a_process_that_ends_without_a_word_is_no_mistake_of_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    path = written(tmp_path, 20_000)
    with pytest.raises(OutriderError, match="the reading process ended"):
        async with DocumentReader().campaign(DEFAULT_SCOPE, path, PHASES):
            raise AssertionError


async def test_one_workspaces_documents_hold_up_no_others() -> None:
    """X5: 12 × 50 long templates held up uploads for 16 s."""
    reader, go = DocumentReader(), threading.Event()
    try:
        slow = [
            asyncio.create_task(reader.run(DEFAULT_SCOPE, 0, go.wait))
            for _ in range(READINGS_WAITING_MAX + 1)
        ]
        await asyncio.sleep(0)
        assert await reader.run(OTHER, 0, len, "abc") == 3
        with pytest.raises(Overloaded, match="too many documents in progress"):
            await reader.run(DEFAULT_SCOPE, 0, len, "abc")
        assert not any(each.done() for each in slow)
    finally:
        go.set()
    assert all(await asyncio.gather(*slow))


def test_many_long_templates_are_checked_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """X5: each long template had a process of its own."""
    started: list[object] = []
    real = subprocess.Popen

    def counted(command: list[str], **others: Any) -> object:
        started.append(command)
        return real(command, **others)

    monkeypatch.setattr(subprocess, "Popen", counted)
    with TemplateChecker() as checker:
        assert [checker.check(f"{LONG}{number}") for number in range(50)] == [None] * 50
        assert len(started) == 1
        # Whether it dies of this one or not, it goes on.
        checker.check("{{ " + "-" * 200_000 + "1 }}")
        assert str(checker.check("\n" * 5_000 + "{{ a b }}")).startswith("line 5001: ")
    assert len(started) <= 2
