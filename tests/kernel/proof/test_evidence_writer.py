"""The evidence writer: a bundle has everything about a run but who was written to, and what."""

import json

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.errors import Conflict, NotFound
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.kernel.proof.bundle_verifier import BundleVerifier
from outrider.kernel.transactions import ledger_items
from outrider.secrets.signing import is_signed
from tests.support.noop_launches import noop_launch
from tests.support.whole_runs import work_until_terminal

BODY = "A body that stays in the house"


async def ended(outrider: Outrider, count: int = 3) -> RunId:
    run_id = await noop_launch(outrider, count, body=BODY)
    await work_until_terminal(outrider, run_id)
    return run_id


async def bundle_of(outrider: Outrider, run_id: RunId) -> list[bytes]:
    return [line async for line in outrider.evidence_writer.bundle(DEFAULT_SCOPE, run_id)]


async def test_a_bundle_holds_and_has_each_kind_of_evidence(noop_outrider: Outrider) -> None:
    run_id = await ended(noop_outrider)
    lines = await bundle_of(noop_outrider, run_id)
    found = BundleVerifier(is_signed).verify(lines)
    assert found.findings == []
    assert found.run_id == run_id
    assert found.counted["ledger"] == 3
    assert found.counted["event"] >= 5
    assert {"bundle", "seal", "contract", "template"} <= set(found.counted)
    assert found.key_ids == [noop_outrider.evidence_key.key_id]


async def test_neither_bodies_nor_addresses_nor_recipients_leave_the_house(
    noop_outrider: Outrider,
) -> None:
    run_id = await ended(noop_outrider)
    whole = b"".join(await bundle_of(noop_outrider, run_id)).decode()
    items = json.loads(
        await noop_outrider.evidence_writer.inclusion(
            DEFAULT_SCOPE, run_id, await first_recipient(noop_outrider, run_id)
        )
    )["items"]
    recipient, address = items[0]["recipient"]
    for hidden in (BODY, recipient, address):
        assert f'"{hidden}"' not in whole
        assert hidden == recipient or hidden not in whole


async def test_a_run_that_has_not_ended_has_no_evidence_yet(noop_outrider: Outrider) -> None:
    run_id = await noop_launch(noop_outrider)
    with pytest.raises(Conflict):
        await bundle_of(noop_outrider, run_id)


async def test_one_recipients_proof_holds_and_is_of_nobody_else(noop_outrider: Outrider) -> None:
    run_id = await ended(noop_outrider, 7)
    recipient = await first_recipient(noop_outrider, run_id)
    proof = await noop_outrider.evidence_writer.inclusion(DEFAULT_SCOPE, run_id, recipient)
    found = BundleVerifier(is_signed).verify_inclusion(proof)
    assert found.findings == []
    assert found.counted["ledger"] == 1
    assert json.loads(proof)["items"][0]["recipient"][0] == recipient
    with pytest.raises(NotFound):
        await noop_outrider.evidence_writer.inclusion(DEFAULT_SCOPE, run_id, "nobody")


async def first_recipient(outrider: Outrider, run_id: RunId) -> str:
    found = await outrider.store.read(
        ledger_items.whole_of_recipient(DEFAULT_SCOPE, run_id, "lead-1", 1)
    )
    return found[0].item.recipient_id
