"""The item explainer: describes in sentences what happened to an item, and why."""

from collections.abc import Sequence
from typing import NamedTuple, assert_never

from outrider.domain.blocker_facts import Blocker, BlockerCode
from outrider.domain.call_results import (
    DUPLICATE_REFERENCE,
    INVALID_ANSWER,
    TARGET_DOWN,
    TARGET_SETUP,
    TARGET_THROTTLED,
    Progress,
)
from outrider.domain.ids import Scope
from outrider.domain.jobs import JOB_DEAD
from outrider.domain.own_limits import OWN_LIMIT
from outrider.domain.receipts import Delivery, DeliveryState
from outrider.domain.recipients import SkipReason
from outrider.domain.screen_policies import WaitsFor
from outrider.domain.states import SUCCESSES, IntentStatus, ItemStatus
from outrider.domain.times import rfc3339
from outrider.domain.workflows import STEP_DELAY, STEP_PASSED
from outrider.kernel.reports.blocker_finder import BlockerFinder
from outrider.kernel.transactions import resubmissions
from outrider.kernel.transactions.ledger_items import Attempt, Item, LateAcceptance, WholeItem
from outrider.kernel.transactions.resubmissions import ResubmissionLinks
from outrider.ports.store import Store

SKIPPED_BECAUSE = {
    SkipReason.NO_ADDRESS: "the recipient has no address for this channel",
    SkipReason.INVALID_ADDRESS: "the recipient's address is not valid",
    SkipReason.DUPLICATE_ADDRESS: "an earlier recipient of the campaign has the same address",
    SkipReason.SUPPRESSED: "the address has opted out",
    SkipReason.ACCEPTED_LATE: "the provider had accepted it in the previous run after all",
    JOB_DEAD: "its job was given up before it was reached; retrying the phase sends it",
    STEP_PASSED: "its time had passed when the event arrived",
    WaitsFor.FREQUENCY_CAP: "the address has received as many messages as the frequency cap allows",
}
WAITS_UNTIL = {
    OWN_LIMIT: "this machine had run out of a resource such as file handles",
    STEP_DELAY: "its workflow step is not due yet",
    WaitsFor.QUIET_HOURS: "the recipient is in quiet hours",
    WaitsFor.SENDING_WINDOW: "the sending window is closed",
    WaitsFor.FREQUENCY_CAP: "the address has received as many messages as the frequency cap allows",
    WaitsFor.WARM_UP: "its target has sent as many messages today as its warm-up plan allows",
    WaitsFor.DOMAIN_LIMIT: "its target limits what it sends to the recipient's domain",
    WaitsFor.DOMAIN_THROTTLED: "the recipient's mailbox provider asked to retry later",
    TARGET_SETUP: "its target is not set up correctly: run `outrider check`",
    TARGET_DOWN: "its target is not accepting calls: run `outrider target list`",
    TARGET_THROTTLED: "its target asked to retry later",
}


OWN_REASONS = frozenset(
    {
        BlockerCode.IN_DOUBT,
        BlockerCode.QUIET_HOURS,
        BlockerCode.TARGET_SHAPED,
        BlockerCode.SCHEDULED,
    }
)
"""The sentences about an item say these already."""


class Explained(NamedTuple):
    """What happened, and where it is not over, what it waits for."""

    sentences: list[str]
    blockers: Sequence[Blocker] = ()


class ItemExplainer:
    def __init__(self, store: Store, blocker_finder: BlockerFinder) -> None:
        self._store = store
        self._blocker_finder = blocker_finder

    async def explain(self, scope: Scope, whole: WholeItem) -> Explained:
        blockers = await self._blocker_finder.of_items(scope, [whole.item])
        links = await self._store.read(resubmissions.links_of(whole.item.id))
        sentences = [*explain_item(*whole), *_linked(links), *blocker_sentences(blockers)]
        return Explained(sentences, blockers)


def _linked(links: ResubmissionLinks) -> list[str]:
    """An ended intent is final: what was sent after all is another one."""
    found = []
    if links.resubmits is not None:
        found.append(f"It resubmits the intent {links.resubmits}, which had ended unsent.")
    if links.resubmitted_as is not None:
        found.append(f"It was resubmitted as the intent {links.resubmitted_as}.")
    return found


def blocker_sentences(blockers: Sequence[Blocker]) -> list[str]:
    return [f"{each.message} {each.hint}" for each in blockers if each.code not in OWN_REASONS]


def explain_item(
    item: Item, attempts: Sequence[Attempt], late: Sequence[LateAcceptance] = ()
) -> list[str]:
    who = item.recipient_id
    if item.run_id is not None or item.template is not None:
        who += f" ({item.address or 'no address'})"
    sentences = [_verdict(item, who)]
    if item.template is not None:
        sentences.append(_origin(item))
    sentences += [_attempt(attempt) for attempt in attempts]
    if item.called_target is not None:
        sentences.append(
            f"The last attempt went to {item.called_target}, the fallback of"
            f" {item.submission_target}: no earlier one can have been accepted."
        )
    if any(attempt.repeat for attempt in attempts):
        sentences.append(
            f"Its contract counts {item.attempts} of these {len(attempts)} calls: a repeat under"
            " the same reference belongs to the attempt that it repeats."
        )
    sentences += [_late(each) for each in late]
    if item.delivery.at is not None:
        sentences.append(_delivery(item.delivery, rfc3339(item.delivery.at)))
    if item.doubted_at is not None:
        if item.reason == SkipReason.SUPPRESSED:
            sentences.append(
                "The address has opted out meanwhile, so the provider is not asked again: that"
                " might send it."
            )
        sentences.append(
            f"It has been in doubt since {rfc3339(item.doubted_at)}: the provider may or may"
            " not have it,"
            " and it is not sent again until evidence shows which."
        )
        verdicts = "sent|failed"
        if item.intent_status != IntentStatus.EXHAUSTED:
            verdicts += "|resubmit"
        sentences.append(
            f"Look up reference {item.reference} at the provider, then run"
            f" `outrider doubts resolve {item.id} --verdict {verdicts} --evidence TEXT`."
        )
    elif item.waits_for is not None and item.next_attempt_at is not None:
        why = WAITS_UNTIL.get(item.waits_for, item.waits_for)
        sentences.append(f"It waits until {rfc3339(item.next_attempt_at)}, because {why}.")
    elif item.next_attempt_at is not None:
        sentences.append(f"The next attempt is due at {rfc3339(item.next_attempt_at)}.")
    return sentences


def _verdict(item: Item, who: str) -> str:
    status = ItemStatus(item.status)
    if status in SUCCESSES:
        proof = f" as {item.provider_message_id}" if item.provider_message_id else ""
        late = " after the contract's deadline" if item.exhausted_reason else ""
        return f"{who} was {item.status} by {item.provider}{proof}{late}."
    if status is ItemStatus.SKIPPED:
        why = _skipped_because(item)
        detail = f" ({item.error})" if item.error else ""
        when = "after an attempt that was not accepted" if item.attempts else "before any call"
        return f"{who} was skipped {when}: {why}{detail}."
    if status is ItemStatus.FAILED:
        policy = f" and the contract allows no more ({item.exhausted_reason})"
        detail = f" ({item.error})" if item.error else ""
        return f"{who} failed: {item.reason}{detail}{policy if item.exhausted_reason else ''}."
    return f"{who} is not finished yet."


def _skipped_because(item: Item) -> str:
    if item.reason == SkipReason.SUPPRESSED and item.transactional:
        return "the address must not be used, not even for transactional messages"
    if item.reason == SkipReason.SUPPRESSED and item.topic is not None:
        return f"the address has opted out of the topic '{item.topic}', or of the channel"
    return SKIPPED_BECAUSE.get(item.reason or "", item.reason or "no reason was recorded")


def _origin(item: Item) -> str:
    """What a workflow's item followed from."""
    if item.domain_event_id is None:
        step = "a step" if item.step_order is None else f"step {item.step_order}"
        return f"It is a digest of the events that {step} collected for this recipient."
    event = f"It was caused by the event {item.event_id} ({item.trigger}),"
    if item.step_id is None:
        return f"{event} by the legacy sender {item.template}."
    if item.step_order is None:
        return f"{event} by a step of its rule that has been deleted since."
    return f"{event} by step {item.step_order} of its rule."


def _attempt(attempt: Attempt) -> str:
    which = f"Attempt {attempt.number}"
    if attempt.repeat:
        which = f"Repeat {attempt.repeat} of attempt {attempt.number}"
    opened = f"{which} was opened at {rfc3339(attempt.opened_at)}"
    if attempt.closed_at is None:
        return f"{opened} and its outcome is not known."
    took_ms = (attempt.closed_at - attempt.opened_at).total_seconds() * 1000
    match attempt.outcome:
        case "accepted" if attempt.reason == DUPLICATE_REFERENCE:
            return (
                f"{opened}; after {took_ms:,.0f} ms the provider reported that it already has the"
                " reference, which proves that the earlier call arrived."
            )
        case "accepted":
            return f"{opened} and accepted after {took_ms:,.0f} ms."
        case "abandoned":
            return f"{opened}; its worker died before it could record an answer."
        case "disproved":
            return f"{opened}; evidence showed that the provider never received it."
        case _:
            far = {
                Progress.NOT_SENT: "the request was not sent",
                Progress.SENT_NO_ANSWER: "the request was sent, and no response came",
            }.get(Progress(attempt.progress or Progress.ANSWERED), "the provider answered")
            if (attempt.reason or "").startswith((INVALID_ANSWER, "http_")):
                far = "the response was not valid"
            return f"{opened} and ended after {took_ms:,.0f} ms with {attempt.reason}: {far}."


def _late(late: LateAcceptance) -> str:
    proof = f" as {late.provider_message_id}" if late.provider_message_id else ""
    return (
        f"The provider accepted attempt {late.attempt}{proof}, but its response arrived at"
        f" {rfc3339(late.answered_at)}, after the item had another outcome. A retry skips"
        " it."
    )


def _delivery(delivery: Delivery, at: str) -> str:
    """What the provider reported afterwards. It is the provider's word, not the ledger's."""
    why = f": {delivery.reason.rstrip('.')}" if delivery.reason else ""
    for_good = " for good" if delivery.permanent else ""
    match delivery.state:
        case DeliveryState.DELIVERED:
            return f"Delivered at {at}, as the provider reported."
        case DeliveryState.READ:
            return f"Read at {at}, as the provider reported."
        case DeliveryState.REPLIED:
            return f"The recipient replied at {at}, as the provider reported."
        case DeliveryState.OPTED_OUT:
            return f"The recipient opted out at {at}, as the provider reported."
        case DeliveryState.COMPLAINED:
            return f"The recipient complained about it, as the provider reported at {at}{why}."
        case DeliveryState.BOUNCED:
            return f"Bounced{for_good}, as the provider reported at {at}{why}."
        case DeliveryState.FAILED:
            return f"Not delivered{for_good}, as the provider reported at {at}{why}."
        case DeliveryState.NONE:
            return "No receipt has arrived."
        case _:
            assert_never(delivery.state)
