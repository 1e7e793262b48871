"""Reading a letter's attachments: bounded, proven by their hashes, and from nowhere else."""

import base64
import errno
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.domain.errors import StoreUnavailable
from outrider.domain.message_content import Attachment, Enclosure, MessageContent
from outrider.files.artifact_store import LocalArtifacts
from outrider.files.object_artifacts import ObjectArtifacts
from outrider.kernel.delivery.attachment_reader import EnclosureReader
from outrider.limits.workflows import ENCLOSURES_MAX_BYTES
from outrider.ports.artifacts import ArtifactStore, StoredArtifact

PDF = "application/pdf"
CONTENT = b"%PDF-1.4 a quote"
RUN = "01a1e212-4aac-7faa-b47f-af878338aa53"


async def pieces(*content: bytes) -> AsyncIterator[bytes]:
    for piece in content:
        yield piece


def inline(content: bytes = CONTENT, name: str = "quote.pdf") -> Attachment:
    return Attachment(name, PDF, base64=base64.b64encode(content).decode())


def stored(reference: str, content: bytes = CONTENT, name: str = "quote.pdf") -> Attachment:
    return Attachment(name, PDF, artifact=reference, sha256=hashlib.sha256(content).hexdigest())


def not_there(name: str) -> str:
    """The same for all that is wrong with an artifact, so that guessing names tells nothing."""
    return f"the attachment '{name}' has no artifact with this sha256, or is too large"


def letter(*attachments: Attachment) -> MessageContent:
    return MessageContent("Offer", "Hello", attachments)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def artifacts(root: Path) -> LocalArtifacts:
    return LocalArtifacts(root)


async def test_files_come_in_their_order_from_wherever_they_are(artifacts: LocalArtifacts) -> None:
    kept = await artifacts.put(RUN, "terms.pdf", pieces(b"the ", b"terms"))
    terms = stored(kept.reference, b"the terms", "terms.pdf")
    read = await EnclosureReader(artifacts).read(letter(inline(), terms))
    assert read == [
        Enclosure("quote.pdf", PDF, CONTENT),
        Enclosure("terms.pdf", PDF, b"the terms"),
    ]
    assert await EnclosureReader(artifacts).read(letter()) == []


async def test_files_of_an_object_store_are_read_and_bounded_too() -> None:
    artifacts = ObjectArtifacts("memory://enclosures")
    kept = await artifacts.put(RUN, "quote.pdf", pieces(CONTENT))
    attached = letter(stored(kept.reference))
    assert await EnclosureReader(artifacts).read(attached) == [Enclosure("quote.pdf", PDF, CONTENT)]
    assert await EnclosureReader(artifacts, 5).read(attached) == not_there("quote.pdf")
    elsewhere = letter(stored("s3://somebodys/else/quote.pdf"))
    assert "has no artifact with this sha256" in str(
        await EnclosureReader(artifacts).read(elsewhere)
    )


async def test_the_limit_is_for_all_files_of_a_message_together(artifacts: LocalArtifacts) -> None:
    reader = EnclosureReader(artifacts, 2 * len(CONTENT))
    kept = await artifacts.put(RUN, "quote.pdf", pieces(CONTENT))
    assert len(await reader.read(letter(inline(), stored(kept.reference)))) == 2
    problem = await reader.read(letter(inline(), inline(), inline(b"x")))
    assert problem == f"the attachments have more than {2 * len(CONTENT)} bytes together"
    more = stored((await artifacts.put(RUN, "x", pieces(b"x"))).reference, b"x", "x")
    assert await reader.read(letter(inline(), inline(), more)) == not_there("x")


@pytest.mark.parametrize("spare", [0, 1, 2, 3])
async def test_a_file_of_exactly_the_limit_fits(artifacts: LocalArtifacts, spare: int) -> None:
    content = b"x" * (60 - spare)
    assert len(await EnclosureReader(artifacts, 60 - spare).read(letter(inline(content)))) == 1
    problem = await EnclosureReader(artifacts, 59 - spare).read(letter(inline(content)))
    assert "together" in str(problem)


async def test_no_more_of_an_artifact_is_read_than_fits() -> None:
    class Endless(LocalArtifacts):
        given, closed = 0, False

        async def read(self, reference: str) -> AsyncIterator[bytes]:  # noqa: ARG002
            try:
                while True:
                    self.given += 1
                    yield b"x" * 1024 * 1024
            finally:
                self.closed = True

    endless = Endless(Path())
    problem = await EnclosureReader(endless).read(letter(stored("file:run/endless")))
    assert problem == not_there("quote.pdf")
    assert endless.given == ENCLOSURES_MAX_BYTES // (1024 * 1024) + 1
    assert endless.closed


async def test_a_file_that_is_not_the_one_whose_hash_was_given_is_not_attached(
    artifacts: LocalArtifacts,
) -> None:
    """Whoever attaches an artifact knows its bytes, or at least their hash: no guess will do."""
    kept = await artifacts.put(RUN, "results.csv", pieces(b"somebody else's"))
    for guess in (stored(kept.reference), Attachment("x", PDF, artifact=kept.reference, sha256="")):
        problem = await EnclosureReader(artifacts).read(letter(guess))
        assert problem == not_there(guess.name)


@pytest.mark.parametrize(
    "reference",
    ["file:../secret", "file:/etc/hostname", f"file:{RUN}/../../secret", "file:link/secret",
     f"file:{RUN}", "file:nobody/knows", "s3://bucket/secret"],
)  # fmt: skip
async def test_a_reference_out_of_the_folder_attaches_nothing(
    artifacts: LocalArtifacts, root: Path, reference: str
) -> None:
    await artifacts.put(RUN, "quote.pdf", pieces(CONTENT))
    (root.parent / "secret").write_bytes(CONTENT)
    (root / "link").symlink_to(root.parent)
    problem = await EnclosureReader(artifacts).read(letter(stored(reference)))
    assert problem == not_there("quote.pdf")


@pytest.mark.parametrize(
    "reference",
    ["https://example.test/quote.pdf?signature=planted", "file:", "quote.pdf", "file:a\0b",
     "s3://user:planted@bucket/x", ""],
)  # fmt: skip
async def test_a_reference_that_is_none_is_a_problem_that_does_not_repeat_it(
    artifacts: LocalArtifacts, reference: str
) -> None:
    problem = await EnclosureReader(artifacts).read(letter(stored(reference)))
    assert isinstance(problem, str)
    assert problem.startswith("the artifact of the attachment 'quote.pdf' ")
    assert "planted" not in problem


async def test_base64_that_is_none_is_a_problem(artifacts: LocalArtifacts) -> None:
    wrong = Attachment("quote.pdf", PDF, base64="not base64!")
    problem = await EnclosureReader(artifacts).read(letter(wrong))
    assert problem == "the attachment 'quote.pdf' is not in base64"


@pytest.mark.parametrize("before_first_piece", [True, False])
async def test_a_store_that_cannot_be_read_now_raises_so_that_the_item_is_tried_later(
    before_first_piece: bool,
) -> None:
    class Broken:
        async def put(
            self, folder: str, name: str, content: AsyncIterator[bytes]
        ) -> StoredArtifact:
            raise NotImplementedError

        async def read(self, reference: str) -> AsyncIterator[bytes]:  # noqa: ARG002
            if before_first_piece:
                raise StoreUnavailable("the object store did not do it")
            yield b"half"
            raise OSError(errno.EIO, "Input/output error")

    broken: ArtifactStore = Broken()
    with pytest.raises(StoreUnavailable):
        await EnclosureReader(broken).read(letter(stored("file:run/quote.pdf")))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.ESTALE])
async def test_files_in_an_unresponsive_folder_do_not_count_as_missing(
    artifacts: LocalArtifacts, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    kept = await artifacts.put(RUN, "quote.pdf", pieces(CONTENT))

    def refuse(*_: object) -> None:
        raise OSError(number, "not now")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(StoreUnavailable):
        await EnclosureReader(artifacts).read(letter(stored(kept.reference)))
