"""The bundle verifier: whatever byte of a bundle or a proof is changed, it no longer holds."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.bundles import BundleProblem
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.proof.bundle_verifier import BundleVerifier
from outrider.kernel.proof.evidence_writer import end_line
from outrider.limits.proof import FINDINGS_MAX
from outrider.ports.signing import Signer
from outrider.secrets.signing import is_signed
from outrider.testing.launches import target
from tests.kernel.proof.test_evidence_writer import bundle_of, ended, first_recipient
from tests.support.noop_launches import NOOP
from tests.support.whole_runs import opened


def flipped(content: bytes, place: int) -> bytes:
    """Of a letter the bit that makes a capital one of it, of all else the lowest."""
    changed = bytearray(content)
    changed[place] ^= 0x20 if chr(content[place]).isalpha() else 0x01
    return bytes(changed)


def lines_of(content: bytes) -> list[bytes]:
    return content.splitlines(keepends=True)


def problems(lines: Iterable[bytes], *keys: bytes) -> set[BundleProblem]:
    return {each.problem for each in BundleVerifier(is_signed, keys).verify(lines).findings}


@pytest.fixture
async def bundle(noop_outrider: Outrider) -> list[bytes]:
    run_id = await ended(noop_outrider, 1)
    return await bundle_of(noop_outrider, run_id)


async def test_every_byte_of_a_bundle_flipped_is_found(
    sqlite_template: Path, tmp_path: Path
) -> None:
    """Of one database: bundles of both are the same."""
    file = shutil.copy(sqlite_template, tmp_path / "outrider.db")
    noop = target(NOOP, "noop", "noop:")
    async with opened(f"sqlite:///{file}", tmp_path, noop) as outrider:
        whole = b"".join(await bundle_of(outrider, await ended(outrider, 1)))
    assert problems(lines_of(whole)) == set()
    missed = [
        whole[place - 10 : place + 10]
        for place in range(len(whole))
        if not problems(lines_of(flipped(whole, place)))
    ]
    assert missed == []


async def test_every_byte_of_a_recipients_proof_flipped_is_found(noop_outrider: Outrider) -> None:
    run_id = await ended(noop_outrider, 5)
    recipient = await first_recipient(noop_outrider, run_id)
    proof = await noop_outrider.evidence_writer.inclusion(DEFAULT_SCOPE, run_id, recipient)
    verifier = BundleVerifier(is_signed)
    assert verifier.verify_inclusion(proof).holds
    missed = [
        proof[place - 10 : place + 10]
        for place in range(len(proof))
        if verifier.verify_inclusion(flipped(proof, place)).holds
    ]
    assert missed == []


def signed_again(lines: Sequence[bytes], signer: Signer) -> list[bytes]:
    digest = hashlib.sha256(b"".join(lines[:-1])).digest()
    signature = signer.sign(digest)
    end = end_line(digest, len(lines) - 1, signer.key_id, signer.public_key, signature)
    return [*lines[:-1], end]


def encoded(cells: object) -> bytes:
    return json.dumps(cells, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def replaced(lines: Sequence[bytes], kind: str, index: int | str, value: object) -> list[bytes]:
    """A cell of the content of the first line of this kind."""
    at = next(place for place, line in enumerate(lines) if json.loads(line)[0] == kind)
    cells = json.loads(lines[at])
    cells[-1][index] = value
    return [*lines[:at], encoded(cells), *lines[at + 1 :]]


async def test_a_changed_row_or_event_is_named_even_if_the_bundle_was_signed_again(
    bundle: list[bytes], noop_outrider: Outrider
) -> None:
    signer = noop_outrider.evidence_key
    changed = signed_again(replaced(bundle, "ledger", 6, "other"), signer)
    found = BundleVerifier(is_signed).verify(changed).findings
    assert [each.problem for each in found] == [
        BundleProblem.LEDGER_ROW,
        BundleProblem.LEDGER_ROOT,
    ]
    assert found[0].which in b"".join(bundle).decode()
    changed = signed_again(replaced(bundle, "event", 1, "RunCancelled"), signer)
    assert problems(changed) == {BundleProblem.EVENT}


async def test_a_certificate_contract_or_field_name_that_was_changed_is_found_even_if_signed_again(
    bundle: list[bytes], noop_outrider: Outrider
) -> None:
    signer = noop_outrider.evidence_key
    header = json.loads(bundle[0])
    header[1]["certificate"]["eventChain"]["head"] = "00" * 32
    changed = signed_again([encoded(header), *bundle[1:]], signer)
    assert problems(changed) == {BundleProblem.EVENT_HEAD}
    header = json.loads(bundle[0])
    header[1]["ledgerFields"].reverse()
    changed = signed_again([encoded(header), *bundle[1:]], signer)
    assert problems(changed) == {BundleProblem.UNREADABLE}
    changed = signed_again(replaced(bundle, "contract", "mode", "other"), signer)
    assert problems(changed) == {BundleProblem.CONTRACT}


async def test_a_bundle_of_a_run_that_was_sealed_with_the_former_key_holds_with_both(
    noop_outrider: Outrider,
) -> None:
    run_id = await ended(noop_outrider, 1)
    await noop_outrider.run_sealer.seal_due()
    key = noop_outrider.evidence_key
    former = key.public_key
    key.create()
    lines = await bundle_of(noop_outrider, run_id)
    assert problems(lines, former, key.public_key) == set()
    assert problems(lines, key.public_key) == {BundleProblem.KEY}
    assert problems(lines, former) == {BundleProblem.KEY}


async def test_of_many_problems_the_first_are_named_and_all_are_counted(
    bundle: list[bytes],
) -> None:
    found = BundleVerifier(is_signed).verify([*bundle[:-1], *[b"[]\n"] * 3_000, bundle[-1]])
    assert found.problems >= 3_000
    assert len(found.findings) == FINDINGS_MAX


async def test_lines_that_are_missing_twice_there_or_in_another_order_are_found(
    bundle: list[bytes],
) -> None:
    for place in range(len(bundle)):
        assert problems([*bundle[:place], *bundle[place + 1 :]])
        assert problems([*bundle[:place], bundle[place], *bundle[place:]])
    assert problems([bundle[1], bundle[0], *bundle[2:]])
    assert problems([])
    assert BundleProblem.CUT_OFF in problems(bundle[:-1])


async def test_a_bundle_of_another_key_does_not_hold(
    bundle: list[bytes], noop_outrider: Outrider
) -> None:
    assert problems(bundle, noop_outrider.evidence_key.public_key) == set()
    assert problems(bundle, bytes(32)) == {BundleProblem.KEY}
