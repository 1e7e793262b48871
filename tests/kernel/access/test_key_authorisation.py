"""A rule of one's own in place of keys and scopes, for signals and for controls of phases."""

from pathlib import Path

import pytest

from outrider.domain.errors import Forbidden, InvalidInput
from outrider.domain.ids import RunId
from outrider.domain.keys import Principal
from outrider.domain.signals import Allowed, AuthorisationDecision, Denied, Signal
from outrider.kernel.access.key_authorisation import KeyAuthorisation
from outrider.plugins import load_authorisation
from outrider.testing.launches import target
from tests.support.api_server import campaign, running_server
from tests.support.controls import begun, created
from tests.support.run_logs import ADMIN, READER, signal, types_of
from tests.support.whole_runs import opened

NOOP = target("sms.all", "noop", "noop:")


class NoStopping:
    """Everybody may do everything, but nobody may cancel."""

    async def decide(
        self,
        principal: Principal,  # noqa: ARG002 - whoever it is
        signal: Signal,
        run_id: RunId,  # noqa: ARG002 - whichever it is
    ) -> AuthorisationDecision:
        return Denied("nothing is stopped here") if signal is Signal.CANCEL else Allowed()


class Deaf:
    def decide(self) -> None:
        pass


OURS = f"{__name__}:NoStopping"


async def test_a_custom_authorisation_decides_on_signals(database: str, tmp_path: Path) -> None:
    """RM: authorisation was a port that nothing could be plugged into."""
    async with opened(database, tmp_path, NOOP, authorisation=OURS) as outrider:
        run_id = await begun(outrider, await created(outrider, 5))
        assert (await signal(outrider, run_id, Signal.PAUSE, by=READER)).changed
        with pytest.raises(Forbidden, match="nothing is stopped here"):
            await signal(outrider, run_id, Signal.CANCEL, by=ADMIN)
        assert (await types_of(outrider, run_id))[-1] == "SignalRejected"


async def test_the_same_rule_decides_at_the_phases_door(database: str, tmp_path: Path) -> None:
    rule = {"OUTRIDER_AUTHORISATION": OURS, "PYTHONPATH": str(Path(__file__).parents[3])}
    async with running_server(tmp_path, database=database, workers=0, environment=rule) as server:
        made = await server.request("POST", "/campaigns", campaign(3))
        campaign_id = made.json["campaignId"]
        door = f"/campaigns/{campaign_id}/phases/launch"
        run_id = (await server.request("POST", f"{door}/start")).json["runId"]
        assert (await server.request("POST", f"{door}/pause")).status == 200
        for path in (f"{door}/stop", f"/campaigns/{campaign_id}/stop"):
            answer = await server.request("POST", path)
            assert (answer.status, answer.json["error"]["code"]) == (403, "SIGNAL_FORBIDDEN")
        page = await server.get(f"/runs/{run_id}/events")
        types = [line["eventType"] for line in page["items"]]
        assert types[-2:] == ["SignalRejected"] * 2


async def test_without_one_keys_decide(database: str, tmp_path: Path) -> None:
    async with opened(database, tmp_path, NOOP) as outrider:
        assert isinstance(outrider.authorisation, KeyAuthorisation)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere", "package.module:Class"),
        ("no.such.module:Rule", "cannot be loaded"),
        (f"{__name__}:Missing", "cannot be loaded"),
        (f"{__name__}:Deaf", "coroutine decide"),
    ],
)
def test_one_that_cannot_be_used_is_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        load_authorisation(name)
