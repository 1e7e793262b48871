"""The issue's sentence: one click on a newsletter must not silence the receipts of a purchase.

Whichever door the receipt comes through; and it offers no unsubscribing that would change nothing.
"""

from dataclasses import replace
from email.message import Message as Mail

import pytest

from outrider.domain.campaigns import Message
from outrider.domain.emissions import Emission
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.purposes import UNSTATED, Purpose
from outrider.domain.recipients import recipient
from outrider.domain.states import Channel
from outrider.domain.written_workflows import WrittenRule, WrittenStep
from outrider.kernel.submissions.submission_manager import Submission
from outrider.testing.launches import launch, message
from tests.api import test_unsubscribe
from tests.api.test_unsubscribe import ONE_CLICK, Scene
from tests.support.controls import until
from tests.support.whole_runs import work_until_terminal, working
from tests.support.workflows import TO_LEAD

pytestmark = pytest.mark.asyncio(loop_scope="module")

RECEIPT = Purpose("purchases", transactional=True)
scene = test_unsubscribe.scene


def letter(subject: str, purpose: Purpose) -> Message:
    return replace(message(Channel.EMAIL, "mail", body="Hello"), subject=subject, purpose=purpose)


def mails(scene: Scene, subject: str) -> list[Mail]:
    return [mail for mail in scene.mailroom.messages if mail["Subject"] == subject]


async def by_campaign(scene: Scene, name: str, subject: str, purpose: Purpose) -> None:
    told = recipient(name, email=f"{name}@example.test")
    run_id = await launch(scene.outrider, [letter(subject, purpose)], [told])
    await work_until_terminal(scene.outrider, run_id)


async def by_workflow(scene: Scene, name: str, subject: str, purpose: Purpose) -> None:
    step = WrittenStep(
        1, Channel.EMAIL, "Paid", subject=subject, recipients=TO_LEAD, submission_target="mail"
    )
    trigger = f"paid_{name.replace('-', '_')}"
    rule = WrittenRule(trigger, Channel.EMAIL, "lead", steps=(step,), purpose=purpose)
    await scene.outrider.rule_keeper.apply(DEFAULT_SCOPE, [rule], "test", prune=False)
    lead = {"id": name, "email": f"{name}@example.test"}
    await scene.outrider.event_intake.emit(
        DEFAULT_SCOPE, Emission(f"{subject}-{name}", trigger, {"lead": lead}, {})
    )


async def by_intent(scene: Scene, name: str, subject: str, purpose: Purpose) -> None:
    payload = {"to": f"{name}@example.test", "subject": subject, "body": "Paid"}
    given = Submission(f"{subject}-{name}", "mail", payload, purpose=purpose)
    await scene.outrider.submissions.submit(DEFAULT_SCOPE, given)


DOORS = {"campaign": by_campaign, "workflow": by_workflow, "intent": by_intent}


@pytest.mark.parametrize("clicked", [UNSTATED, Purpose("newsletter")], ids=["all", "topic"])
@pytest.mark.parametrize("door", DOORS)
async def test_one_click_on_a_newsletter_does_not_silence_the_receipts_of_a_purchase(
    scene: Scene, door: str, clicked: Purpose
) -> None:
    name = f"{door}-{clicked.topic or 'all'}"
    await by_campaign(scene, name, f"News for {name}", clicked)
    (news,) = mails(scene, f"News for {name}")
    url = str(news["List-Unsubscribe"]).removeprefix("<").removesuffix(">")
    status, _, _ = await scene.ask("POST", url, ONE_CLICK)
    assert status == 200
    async with working(scene.outrider):
        await DOORS[door](scene, name, f"Receipt for {name}", RECEIPT)
        await until(lambda: len(mails(scene, f"Receipt for {name}")) == 1)
    (receipt,) = mails(scene, f"Receipt for {name}")
    assert receipt["List-Unsubscribe"] is None
    await by_campaign(scene, name, f"More for {name}", clicked)
    assert mails(scene, f"More for {name}") == [], "the click held for what it was about"


async def test_two_messages_of_one_campaign_may_be_about_different_things(scene: Scene) -> None:
    """The newsletter of a campaign is held back, and the receipt that goes with it is not."""
    news = replace(letter("Both: news", Purpose("newsletter")), id="news")
    receipt = replace(letter("Both: receipt", RECEIPT), id="receipt")
    told = recipient("both", email="both@example.test")
    run_id = await launch(scene.outrider, [news, receipt], [told])
    await work_until_terminal(scene.outrider, run_id)
    (mail,) = mails(scene, "Both: news")
    assert mails(scene, "Both: receipt")[0]["List-Unsubscribe"] is None
    url = str(mail["List-Unsubscribe"]).removeprefix("<").removesuffix(">")
    await scene.ask("POST", url, ONE_CLICK)
    run_id = await launch(scene.outrider, [news, receipt], [told])
    await work_until_terminal(scene.outrider, run_id)
    assert len(mails(scene, "Both: news")) == 1
    assert len(mails(scene, "Both: receipt")) == 2


async def test_two_steps_of_one_rule_may_be_about_different_things(scene: Scene) -> None:
    """The step with a topic of its own is held back; the other goes by its rule."""

    def step(order: int, subject: str, topic: str | None) -> WrittenStep:
        return WrittenStep(
            order, Channel.EMAIL, "Hello", subject=subject, recipients=TO_LEAD,
            submission_target="mail", topic=topic,
        )  # fmt: skip

    steps = (step(1, "Steps: news", "newsletter"), step(2, "Steps: news of orders", None))
    rule = WrittenRule("ordered", Channel.EMAIL, "lead", steps=steps, purpose=Purpose("orders"))
    await scene.outrider.rule_keeper.apply(DEFAULT_SCOPE, [rule], "test", prune=False)

    async def emit(event_id: str) -> None:
        lead = {"id": "steps", "email": "steps@example.test"}
        await scene.outrider.event_intake.emit(
            DEFAULT_SCOPE, Emission(event_id, "ordered", {"lead": lead}, {})
        )

    async with working(scene.outrider):
        await emit("steps-1")
        await until(lambda: len(mails(scene, "Steps: news of orders")) == 1)
        await until(lambda: len(mails(scene, "Steps: news")) == 1)
        (mail,) = mails(scene, "Steps: news")
        url = str(mail["List-Unsubscribe"]).removeprefix("<").removesuffix(">")
        await scene.ask("POST", url, ONE_CLICK)
        await emit("steps-2")
        await until(lambda: len(mails(scene, "Steps: news of orders")) == 2)
    assert len(mails(scene, "Steps: news")) == 1
