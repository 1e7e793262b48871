"""The certifier: a launch is certified when every criterion holds, and says which does not."""

from pathlib import Path

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.testing.launches import launch, message, people
from tests.support.doubt_scene import scene
from tests.support.noop_launches import noop_launch
from tests.support.whole_runs import work_until_terminal


async def test_a_run_is_certified_when_it_has_ended_and_not_before(
    noop_outrider: Outrider,
) -> None:
    run_id = await noop_launch(noop_outrider)
    before = await noop_outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert not before.holds
    await work_until_terminal(noop_outrider, run_id)
    after = await noop_outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert after.holds, after.criteria
    assert after.accounting.sent == 3
    again = await noop_outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert again.digest == after.digest != before.digest


async def test_a_certificate_lists_by_what_its_doubts_were_settled(
    database: str, tmp_path: Path
) -> None:
    """Of calls without an answer some arrived and some did not; the provider is asked which."""
    faults = Faults(drop_rate=0.4, lose_rate=0.3, seed=5)
    async with (
        Sandbox(faults) as sandbox,
        scene(
            database, tmp_path, sandbox, "sms", maxAttempts=50,
            settings={"remembers_references": "never"},
        ) as outrider,
    ):  # fmt: skip
        run_id = await launch(outrider, [message(Channel.SMS, "t")], people(12))
        await work_until_terminal(outrider, run_id)
        certificate = await outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert certificate.holds, certificate.criteria
    listed = certificate.as_document()["doubts"]
    assert isinstance(listed, list)
    items = {(each["kind"], each["verdict"], each["source"]): each["items"] for each in listed}
    assert {(kind, source) for kind, _, source in items} == {("look_up", "t")}
    assert 1 <= sum(items.values()) <= 12
    assert any(verdict == "sent" for _, verdict, _ in items)
