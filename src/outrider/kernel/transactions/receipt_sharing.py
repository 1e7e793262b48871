"""Receipts of a target that workspaces share: the provider does not know whose message it reports.

They are taken for the default workspace, whose credential it is, and belong to the workspace whose
item they are about, or that has written to whoever replies. That workspace is handed a copy under
the same id; from there on everything goes by its scope. Nobody else's items are looked at.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from outrider.domain.ids import DEFAULT_SCOPE, Scope, WorkspaceId
from outrider.domain.opt_out_words import OptOutWord
from outrider.kernel.transactions import receipts
from outrider.kernel.transactions.receipts import MatchedBy, MatchedItem, WaitingReceipt
from outrider.limits.receipts import SHARED_LOOK_UPS_AT_ONCE
from outrider.ports.store import Transaction, ask

Sharers = Mapping[str, frozenset[Scope]]
"""By submission target: the workspaces whose messages the provider reports together."""

NOBODY: Sharers = {}


class ReceiptMatch(NamedTuple):
    """A receipt, in the scope of the workspace that it belongs to, and the item it is about."""

    receipt: WaitingReceipt
    item: MatchedItem
    how: MatchedBy


def is_shared(receipt: WaitingReceipt, sharers: Sharers) -> bool:
    """A receipt posted to a workspace's own URL belongs to that workspace, whatever it says."""
    return receipt.submission_target in sharers and receipt.scope == DEFAULT_SCOPE


def in_scope(receipt: WaitingReceipt, scope: Scope) -> WaitingReceipt:
    return receipt._replace(tenant_id=scope.tenant_id, workspace_id=scope.workspace_id)


def found(
    wanted: Mapping[int, WaitingReceipt], sharers: Sharers
) -> Transaction[dict[int, ReceiptMatch]]:
    """By the provider's id, which it gives once, where our reference does not contradict it; else
    by the reference, which two workspaces may have chosen alike, where only one of them has."""
    matches = yield from _by_message(wanted, sharers)
    left = {place: each for place, each in wanted.items() if place not in matches}
    matches |= yield from _by_reference(left, sharers)
    return matches


def _by_message(
    wanted: Mapping[int, WaitingReceipt], sharers: Sharers
) -> Transaction[dict[int, ReceiptMatch]]:
    by_target: dict[str, dict[int, str]] = defaultdict(dict)
    for place, each in wanted.items():
        if each.provider_message_id is not None:
            by_target[each.submission_target][place] = each.provider_message_id
    candidates: dict[int, list[ReceiptMatch]] = defaultdict(list)
    for target, messages in by_target.items():
        rows = yield from ask(
            "shared_items_of_messages",
            {"place": list(messages), "message_id": list(messages.values())},
            submission_target=target,
            workspaces=_workspaces(sharers[target]),
        )
        for place, tenant_id, workspace_id, key, *item in rows:
            receipt = in_scope(wanted[place], Scope(tenant_id, workspace_id))
            reference = receipts.reference_of(receipt)
            if reference is None or reference == key:
                match = ReceiptMatch(receipt, MatchedItem.of(item), MatchedBy.PROVIDER_MESSAGE_ID)
                candidates[place].append(match)
    return {place: found[0] for place, found in candidates.items() if len(found) == 1}


def _by_reference(
    wanted: Mapping[int, WaitingReceipt], sharers: Sharers
) -> Transaction[dict[int, ReceiptMatch]]:
    pairs = [
        (place, in_scope(each, scope), reference)
        for place, each in wanted.items()
        if (reference := receipts.reference_of(each)) is not None
        for scope in sorted(sharers[each.submission_target])
    ]
    candidates: dict[int, list[ReceiptMatch]] = defaultdict(list)
    for first in range(0, len(pairs), SHARED_LOOK_UPS_AT_ONCE):
        some = pairs[first : first + SHARED_LOOK_UPS_AT_ONCE]
        items = yield from receipts.items_by_reference(
            {index: (receipt, reference) for index, (_, receipt, reference) in enumerate(some)}
        )
        for index, item in items.items():
            place, receipt, _ = some[index]
            candidates[place].append(ReceiptMatch(receipt, item, MatchedBy.REFERENCE))
    return {place: found[0] for place, found in candidates.items() if len(found) == 1}


def whose_replies(
    replies: Mapping[int, WaitingReceipt], sharers: Sharers, most: int
) -> Transaction[dict[int, list[WaitingReceipt]]]:
    """Replies without a message, each for the workspaces that it concerns: STOP and START for all
    who have written to its sender through the target, anything else for who did so last."""
    by_target: dict[str, dict[int, str]] = defaultdict(dict)
    for place, each in replies.items():
        if each.sender is not None:
            by_target[each.submission_target][place] = each.sender
    theirs: dict[int, list[WaitingReceipt]] = defaultdict(list)
    for target, senders in by_target.items():
        rows = yield from ask(
            "addressees_of_target",
            {"place": list(senders), "address": list(senders.values())},
            submission_target=target,
            workspaces=_workspaces(sharers[target]),
            most=most,
        )
        for place, tenant_id, workspace_id in rows:
            receipt = replies[place]
            concerns_all = receipt.keyword in (OptOutWord.STOP, OptOutWord.START)
            if concerns_all or not theirs[place]:
                theirs[place].append(in_scope(receipt, Scope(tenant_id, workspace_id)))
    return theirs


def hand_over(given: Iterable[WaitingReceipt]) -> Transaction[set[tuple[str, WorkspaceId]]]:
    """Give each workspace its receipts of shared targets. Returns those, by id and workspace, that
    only repeat what the workspace already knows."""
    places = {(each.id, each.scope) for each in given}
    of_others = sorted((id, scope) for id, scope in places if scope != DEFAULT_SCOPE)
    if not of_others:
        return set()
    ids = [id for id, _ in of_others]
    workspaces = [scope.workspace_id for _, scope in of_others]
    yield from ask(
        "hand_over_receipts",
        {
            "id": ids,
            "taken_by": [DEFAULT_SCOPE.workspace_id] * len(ids),
            "tenant_id": [scope.tenant_id for _, scope in of_others],
            "workspace_id": workspaces,
        },
    )
    passed = sorted(set(ids) - {id for id, scope in places if scope == DEFAULT_SCOPE})
    if passed:
        own = [DEFAULT_SCOPE.workspace_id] * len(passed)
        yield from ask("pass_receipts", {"workspace_id": own, "id": passed})
    rows = yield from ask("handed_over_receipts", {"id": ids, "workspace_id": workspaces})
    there = {(id, workspace_id) for id, workspace_id in rows}
    return set(zip(ids, workspaces, strict=True)) - there


def _workspaces(scopes: Iterable[Scope]) -> str:
    return json.dumps(sorted(scope.workspace_id for scope in scopes))
