"""The file eraser: artifacts are rewritten without the person, and keep everybody else."""

from collections.abc import AsyncIterator
from pathlib import Path

from outrider.domain.erasure import Identity
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.people import readings
from outrider.kernel.proof.file_eraser import _lines, _scrubbed
from outrider.kernel.transactions import artifacts
from tests.support.erasure_scene import MAIL, OTHER, PHONE, ada, erasure_scene, reported

ID = "01a1ef35-0cd8-7922-924f-75f3b83dc1b1"


async def test_the_results_keep_everybody_else_and_say_what_they_are_now(
    database: str, tmp_path: Path
) -> None:
    async with erasure_scene(database, tmp_path) as desk:
        outrider = desk.outrider
        await reported(outrider, [ada(), OTHER])
        done = await outrider.person_eraser.erase(DEFAULT_SCOPE, MAIL, "dpo")
        (file,) = done.files
        record = await outrider.store.read(artifacts.artifact(DEFAULT_SCOPE, file.artifact_id))
        pieces = [piece async for piece in outrider.artifacts.read(record.reference)]
        content = b"".join(pieces)
        assert len(content) == record.size_bytes
        assert len(content.splitlines()) == 3
        assert (OTHER.phone or "").encode() in content
        assert PHONE.encode() not in content
        again = await outrider.person_eraser.erase(DEFAULT_SCOPE, MAIL, "dpo")
        assert again.files == []


async def test_lines_are_whole_wherever_the_pieces_end() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"a\nb", b"c\n", b"\nd"):
            yield piece

    assert [line async for line in _lines(pieces())] == [b"a\n", b"bc\n", b"\n", b"d"]


def test_a_line_of_results_is_known_by_its_message_and_others_by_the_address() -> None:
    identity = Identity(readings("ada@example.test"))
    line = f'"{ID}","customer-1","x@y.test","email","t","sent","","1","m","now","bounced","550"\r\n'
    erased = _scrubbed(line.encode(), identity, {ID}).decode()
    assert erased == f'"{ID}","erased","","email","t","sent","","1","m","now","bounced",""\r\n'
    assert _scrubbed(line.encode(), identity, set()) == line.encode()
    assert _scrubbed(b"to ADA@example.test\xff\n", identity, set()) == b"to erased\xff\n"
