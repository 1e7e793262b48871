"""Every door takes an address for the same one (C4): opt-outs, campaigns and workflows."""

import json
from pathlib import Path

from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.recipients import recipient
from outrider.domain.states import Channel
from outrider.limits.api import ApiLimits
from outrider.testing.launches import message
from tests.support.api_inside import serving
from tests.support.workflows import MAIL, email, office

WRITTEN = "JOSÉ@Straße.example"
NORMAL = "JOSé@xn--strae-oqa.example"


async def test_an_opt_out_is_found_however_its_address_is_spelt(
    database: str, tmp_path: Path
) -> None:
    """C4: also where no database knows the capital letters of a script."""
    async with office(database, tmp_path) as desk:
        async with serving(desk.outrider, ApiLimits()) as server:
            await server.post("/suppressions", {"channel": "email", "addresses": [WRITTEN]})
        offer = message(Channel.EMAIL, MAIL, body="Hi")
        definition = CampaignDefinition("test", (LAUNCH,), (offer,), 10)
        people = [
            recipient("opted-out", email="jose\u0301@straße.example"),
            recipient("another-owner", email="josé@strasse.example"),
        ]
        campaign_id, _ = await desk.outrider.deployer.create(
            DEFAULT_SCOPE, definition, people, "test"
        )
        found = await desk.outrider.previewer.dry_run(DEFAULT_SCOPE, campaign_id)
        assert (found["wouldSend"], found["skipped"]) == (1, {"suppressed": 1})


async def test_a_workflow_emails_the_owner_of_the_intended_domain(
    database: str, tmp_path: Path
) -> None:
    """C4: to the mail server of the simulator, with SMTPUTF8."""
    async with office(database, tmp_path) as desk:
        await desk.rule("lead_welcome", Channel.EMAIL, email(body="Hi"))
        await desk.routed("lead_welcome", subject={"lead": {"id": "lead-1", "email": WRITTEN}})
        [row] = await desk.delivered()
        assert (row.status, row.recipient) == ("succeeded", NORMAL)
    lines = (tmp_path / "provider.ndjson").read_text().splitlines()
    assert [json.loads(line)["to"] for line in lines] == [NORMAL]
