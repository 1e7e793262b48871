"""Mail servers that say "not now": whoever throttles, nobody's attempts are spent on it.

421, 450 and everything 4.7.x are the server's state, not a message's fate. The connection limit is
a real Postfix's, which relays what it took to a witness.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from outrider.testing.launches import target
from tests.support.deployment import deployed, mail_address
from tests.support.eventually import eventually, observed_for
from tests.support.postfix import needs_postfix, running_postfix
from tests.support.smtp_witness import THROTTLES, Command, SmtpWitness

TRIES, ONE_SHOT = "mail.tries", "mail.one_shot"
THROTTLE_SECONDS = 3.0
PEOPLE = 150
QUICKLY: dict[str, object] = {"retry_first_seconds": 0.5, "breaker_seconds": 1.0}


@dataclass(frozen=True)
class Scale:
    name: str
    mails: int
    seconds: float


QUICK = Scale("quick", 1_000, 120.0)
STORM = Scale("storm", 20_000, 600.0)
SCALES = [
    pytest.param(QUICK, id=QUICK.name),
    pytest.param(STORM, id=STORM.name, marks=pytest.mark.storm),
]


THROTTLED: dict[str, tuple[str, Command]] = {
    "421-mail": ("421", "MAIL"),
    "450-mail": ("450", "MAIL"),
    "450-rcpt": ("450", "RCPT"),
    "451-data": ("451", "DATA"),
    "454-end": ("454", "END"),
    "47x-end": ("4.7.x", "END"),
}

# Five processes and a whole Postfix: once is enough, on the store that such a deployment has.
ON_POSTGRES = pytest.mark.parametrize("database", ["postgres"], indirect=True)


@pytest.fixture
async def mail(tmp_path: Path) -> AsyncIterator[SmtpWitness]:
    async with SmtpWitness(tmp_path) as started:
        yield started


def targets(url: str, suffix: str = "") -> list[dict[str, object]]:
    return [
        target(TRIES + suffix, "smtp", url, policy="max_attempts", maxAttempts=3),
        target(ONE_SHOT + suffix, "smtp", url, policy="one_shot"),
    ]


def refused_somebody(mail: SmtpWitness) -> bool:
    return any(not request.was_accepted for request in mail.requests())


async def test_a_mail_server_that_throttles_uses_up_no_attempts(
    database: str, tmp_path: Path
) -> None:
    """F1: for a while everybody is told to come back later; then everybody is mailed once.

    Every reply at every command, for both policies, at mail servers of their own: side by side in
    one deployment, because all of them mostly wait.
    """
    async with AsyncExitStack() as stack:
        mails = {
            case: await stack.enter_async_context(SmtpWitness(tmp_path, name=f"mail-{case}"))
            for case in THROTTLED
        }
        names = [f"{policy}.{case}" for case in THROTTLED for policy in (TRIES, ONE_SHOT)]
        deployment = await stack.enter_async_context(
            deployed(
                tmp_path,
                database,
                [each for case, mail in mails.items() for each in targets(mail.url, f".{case}")],
                settings=dict.fromkeys(names, QUICKLY),
            )
        )
        launched = {}
        for case, (reply, command) in THROTTLED.items():
            await mails[case].script(refuse_at=command, refuse_with=THROTTLES[reply])
            for name in (f"{TRIES}.{case}", f"{ONE_SHOT}.{case}"):
                launched[name] = await deployment.launch(name, PEOPLE, channel="email")
        for case, mail in mails.items():
            await eventually(
                partial(refused_somebody, mail),
                what=f"{case}: nobody met the throttle, so this proves nothing",
            )
        await observed_for(THROTTLE_SECONDS)
        for mail in mails.values():
            assert not mail.accepted()
            await mail.heal()
        for name, campaign in launched.items():
            run = await deployment.until_run_ended(campaign.run_id)
            items = await deployment.items(campaign.run_id)
            assert run["accounting"]["sent"] == PEOPLE, (name, run["accounting"])
            assert Counter(item["attemptsMade"] for item in items) == {1: PEOPLE}, name
    for case, mail in mails.items():
        taken = Counter(request.to for request in mail.accepted())
        assert taken == dict.fromkeys(everybody(PEOPLE), 2), f"{case}: once for each policy"


@pytest.mark.parametrize("name", [TRIES, ONE_SHOT])
async def test_a_mail_server_with_a_sending_rate_loses_no_message(
    mail: SmtpWitness, database: str, tmp_path: Path, name: str
) -> None:
    """F1: as SES does, 454 to whatever is beyond so many messages a second."""
    await mail.script(rate_per_second=30)
    await everybody_is_mailed_at_the_first_attempt(mail, database, tmp_path, name)


@pytest.mark.parametrize("limit", ["connections", "messages"])
async def test_a_mail_server_that_limits_connections_loses_no_message(
    mail: SmtpWitness, database: str, tmp_path: Path, limit: str
) -> None:
    """A2: 421 in the greeting, or after so many messages, is about the connection."""
    if limit == "connections":
        await mail.script(connections_most=3, end_of_data_seconds=0.02)
    else:
        await mail.script(messages_per_connection=5)
    await everybody_is_mailed_at_the_first_attempt(mail, database, tmp_path, ONE_SHOT)


async def test_the_same_at_a_healthy_mail_server(
    mail: SmtpWitness, database: str, tmp_path: Path
) -> None:
    """The harness of F1 itself."""
    await everybody_is_mailed_at_the_first_attempt(mail, database, tmp_path, ONE_SHOT)


async def everybody_is_mailed_at_the_first_attempt(
    mail: SmtpWitness, database: str, tmp_path: Path, name: str
) -> None:
    async with deployed(
        tmp_path, database, targets(mail.url), settings={name: QUICKLY}
    ) as deployment:
        campaign = await deployment.launch(name, PEOPLE, channel="email")
        run = await deployment.until_run_ended(campaign.run_id, 30.0)
        items = await deployment.items(campaign.run_id)
    assert run["accounting"]["sent"] == PEOPLE, run["accounting"]
    assert Counter(item["attemptsMade"] for item in items) == {1: PEOPLE}
    assert sorted(request.to for request in mail.accepted()) == everybody(PEOPLE)


@needs_postfix
@ON_POSTGRES
@pytest.mark.parametrize("limit", [None, 4], ids=["default-50", "limit-4"])
@pytest.mark.parametrize("scale", SCALES)
async def test_postfix_limits_connections_and_everyone_is_emailed_exactly_once(
    mail: SmtpWitness, database: str, tmp_path: Path, scale: Scale, limit: int | None
) -> None:
    """A2: five worker processes at a healthy Postfix, all of Outrider's settings as shipped."""
    parameters = {} if limit is None else {"smtpd_client_connection_count_limit": limit}
    await postfix_mails_everybody_once(mail, database, tmp_path, scale, parameters)


@needs_postfix
@ON_POSTGRES
async def test_the_same_at_a_postfix_without_a_limit(
    mail: SmtpWitness, database: str, tmp_path: Path
) -> None:
    """The harness of A2 itself."""
    parameters = {"smtpd_client_connection_count_limit": 0, "default_process_limit": 200}
    few = Scale("few", 300, QUICK.seconds)
    await postfix_mails_everybody_once(mail, database, tmp_path, few, parameters)


async def postfix_mails_everybody_once(
    mail: SmtpWitness, database: str, tmp_path: Path, scale: Scale, parameters: dict[str, int]
) -> None:
    async with running_postfix(mail.port, parameters) as postfix:
        async with deployed(
            tmp_path, database, targets(postfix.url), workers_of_server=0
        ) as deployment:
            await deployment.start_worker("--processes", "5")
            campaign = await deployment.launch(TRIES, scale.mails, channel="email", batch_size=100)
            run = await deployment.until_run_ended(campaign.run_id, scale.seconds)
            items = await deployment.items(campaign.run_id)
            accounting = run["accounting"]
            refused = postfix.refused_connections()
            assert accounting["sent"] == scale.mails, f"{accounting}, {refused} × 421"
            assert Counter(item["attemptsMade"] for item in items) == {1: scale.mails}
        await until_relayed(mail, scale)
    assert sorted(request.to for request in mail.accepted()) == everybody(scale.mails)


async def until_relayed(mail: SmtpWitness, scale: Scale) -> None:
    """What Postfix has taken over reaches the witness a little later."""
    await eventually(
        lambda: len({request.to for request in mail.accepted()}) >= scale.mails,
        seconds=scale.seconds,
    )


def everybody(count: int) -> list[str]:
    return sorted(mail_address(number) for number in range(count))
