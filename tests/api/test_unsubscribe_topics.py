"""Unsubscribe links of a topic (audit A8): they end that topic, and offer to end everything."""

from dataclasses import replace
from email.message import Message as Mail

import pytest

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.purposes import UNSTATED, Purpose
from outrider.domain.recipients import recipient
from outrider.domain.states import Channel
from outrider.domain.suppressions import SuppressionSource
from outrider.kernel.transactions.suppressions import FIRST
from outrider.testing.launches import launch, message
from tests.api import test_unsubscribe
from tests.api.test_unsubscribe import LINKED, ONE_CLICK, Scene
from tests.support.whole_runs import items_of, work_until_terminal

pytestmark = pytest.mark.asyncio(loop_scope="module")

NEWS = Purpose("newsletter")
RECEIPT = Purpose(transactional=True)

scene = test_unsubscribe.scene


async def mailed(scene: Scene, name: str, purpose: Purpose, body: str = LINKED.body) -> Mail | str:
    """The mail that somebody got, or why they got none."""
    before = len(scene.mailroom.messages)
    letter = replace(message(Channel.EMAIL, "mail", body=body), purpose=purpose)
    told = recipient(name, email=f"{name}@example.test", attributes='{"firstName": "A"}')
    run_id = await launch(scene.outrider, [letter], [told])
    await work_until_terminal(scene.outrider, run_id)
    if len(scene.mailroom.messages) > before:
        return scene.mailroom.messages[-1]
    return (await items_of(scene.outrider, run_id))[told.id].reason or ""


def link_of(mail: Mail | str) -> str:
    assert isinstance(mail, Mail)
    return str(mail["List-Unsubscribe"]).removeprefix("<").removesuffix(">")


async def test_one_click_ends_the_topic_of_the_mail_and_nothing_else(scene: Scene) -> None:
    """A8: one opt-out used to silence the whole channel."""
    url = link_of(await mailed(scene, "ada", NEWS))
    status, _, page = await scene.ask("POST", url, ONE_CLICK)
    assert status == 200
    assert "messages about <bdi>newsletter</bdi>" in page
    assert await mailed(scene, "ada", NEWS) == "suppressed"
    for purpose in (Purpose("offers"), UNSTATED, RECEIPT):
        assert isinstance(await mailed(scene, "ada", purpose), Mail)
    found = await scene.outrider.suppression_keeper.page(DEFAULT_SCOPE, FIRST, 10)
    [kept] = [each for each in found if each.address == "ada@example.test"]
    assert (kept.topic, kept.source, kept.reason, kept.includes_transactional) == (
        "newsletter", SuppressionSource.UNSUBSCRIBE, "unsubscribed", False,
    )  # fmt: skip


async def test_the_page_of_a_topic_offers_to_end_all_messages(scene: Scene) -> None:
    """A8: all messages but the transactional ones, which no unsubscribe link ends."""
    url = link_of(await mailed(scene, "bea", NEWS))
    _, _, page = await scene.ask("GET", url)
    assert "Unsubscribe from <bdi>newsletter</bdi>" in page
    assert 'name="everything"' in page
    _, _, done = await scene.ask("POST", url, {**ONE_CLICK, "everything": "yes"})
    assert "no longer get these messages" in done
    for purpose in (NEWS, Purpose("offers"), UNSTATED):
        assert await mailed(scene, "bea", purpose) == "suppressed"
    assert isinstance(await mailed(scene, "bea", RECEIPT), Mail)


async def test_a_link_without_a_topic_asks_one_question_only(scene: Scene) -> None:
    _, _, page = await scene.ask("GET", link_of(await mailed(scene, "cleo", UNSTATED)))
    assert page.count("<button") == 1
    assert 'name="everything"' not in page


async def test_a_transactional_mail_has_no_header_that_would_change_nothing(scene: Scene) -> None:
    mail = await mailed(scene, "dan", RECEIPT, body="Paid")
    assert isinstance(mail, Mail)
    assert mail["List-Unsubscribe"] is None
