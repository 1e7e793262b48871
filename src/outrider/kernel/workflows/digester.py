"""The digester: takes due digests, and writes one message for each into the ledger.

A digest is closed in the transaction that writes its row, so a digester that dies at any point
leaves it to be claimed again, and two that hold it at once write it once.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
import structlog

from outrider.domain.addressees import Addressee, recipient_id_of
from outrider.domain.batches import in_parts
from outrider.domain.errors import OutriderError, StoreError, StoreUnavailable
from outrider.domain.failures import described
from outrider.domain.ids import OutboxId, RecipientId, Scope, idempotency_key
from outrider.domain.markup import is_html
from outrider.domain.message_content import MessageContent
from outrider.domain.states import Channel, ItemStatus
from outrider.domain.submission import Contract
from outrider.domain.texts import breaks_header
from outrider.domain.unsubscribe import VARIABLE
from outrider.domain.workflows import AGENT, LEAD, PARTNER, StepId, WorkflowStep, channel_kind
from outrider.kernel.access.unsubscriber import Unsubscriber
from outrider.kernel.contracts.contract_cache import snapshots
from outrider.kernel.delivery.item_drafter import INVALID_HEADER, RENDER_FAILED
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import digests, notifications
from outrider.kernel.transactions.deployment import ContractSnapshot
from outrider.kernel.transactions.digests import ClaimedDigest, ClosedDigest, DigestId, DigestStep
from outrider.kernel.transactions.notifications import NewNotification
from outrider.kernel.workflows.message_composer import lane_number
from outrider.kernel.workflows.step_targets import StepTargets
from outrider.limits.workflows import DIGEST_VARIABLES_MAX_BYTES, NOTIFICATION_WINDOW_BYTES
from outrider.ports.renderer import Rendered, Renderer, RenderProblem

log = structlog.get_logger()

STEP_DELETED = "the step was deleted before its digest was due"
RULE_DISABLED = "the rule or its step was disabled before the digest was due"


class DueDigest(NamedTuple):
    """A digest whose step still exists, and the attributes its template is rendered with."""

    digest: ClaimedDigest
    found: DigestStep
    contract: Contract
    attributes: Mapping[str, Any]


class Digester:
    def __init__(
        self,
        foundation: Foundation,
        renderer: Renderer,
        targets: StepTargets,
        contracts: Callable[[], Mapping[str, Contract]],
        fallback_of: Callable[[str], str | None],
        unsubscriber: Unsubscriber,
        wake_lanes: Callable[[], None],
    ) -> None:
        self._wake_lanes = wake_lanes
        self._store = foundation.store
        self._renderer = renderer
        self._targets = targets
        self._contracts = contracts
        self._fallback_of = fallback_of
        self._unsubscriber = unsubscriber
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            taken = 0
            try:
                taken = await self.digest_due()
            except StoreError as error:
                log.warning("digesting_failed", error=error.message)
            if taken == 0:
                await self._clock.sleep(self._limits.digester_seconds)

    async def digest_due(self) -> int:
        """Write the messages of a window of due digests; returns how many were taken."""
        now = self._clock.now()
        lease_expires_at = now + timedelta(seconds=self._limits.digester_lease_seconds)
        claimed = await self._store.write(
            digests.claim(self._limits.digester_digests, lease_expires_at, now)
        )
        in_scopes = sorted(claimed, key=lambda digest: (digest.scope, digest.id))
        for scope, group in groupby(in_scopes, key=lambda digest: digest.scope):
            await self._digest(scope, list(group))
        return len(claimed)

    async def _digest(self, scope: Scope, claimed: Sequence[ClaimedDigest]) -> None:
        try:
            steps, variables = await self._store.read(
                digests.contents(claimed, DIGEST_VARIABLES_MAX_BYTES)
            )
            for part in in_parts(
                claimed,
                lambda digest: sum(map(len, variables.get(digest.id, ()))),
                NOTIFICATION_WINDOW_BYTES,
            ):
                await self._close(scope, part, steps, variables)
        except StoreUnavailable:
            raise
        except Exception as error:
            if len(claimed) > 1:
                # One of them is to blame; processed individually, each shows whether it is the one.
                for digest in claimed:
                    await self._digest(scope, [digest])
                return
            why = error.message if isinstance(error, OutriderError) else repr(error)
            log.error("digest_failed", digest_id=claimed[0].id, errors=list(described(error)))
            await self._store.write(digests.note_problems([(claimed[0].id, why)]))

    async def _close(
        self,
        scope: Scope,
        claimed: Sequence[ClaimedDigest],
        steps: Mapping[StepId, DigestStep],
        variables: Mapping[DigestId, Sequence[str]],
    ) -> None:
        due: list[DueDigest] = []
        closed: list[ClosedDigest] = []
        problems: list[tuple[DigestId, str]] = []
        for digest in claimed:
            found = steps.get(digest.step_id)
            if found is None:
                closed.append(ClosedDigest(digest.id, None, STEP_DELETED))
                continue
            if digest.id not in variables:
                # Its event went into an older digest for the same recipient: there is nothing to
                # send.
                closed.append(ClosedDigest(digest.id, None))
                continue
            if not found.enabled:
                closed.append(ClosedDigest(digest.id, None, RULE_DISABLED))
                continue
            step = found.step
            contract = self._targets.find(step.channel, step.submission_target)
            if isinstance(contract, str):
                problems.append((digest.id, contract))
                continue
            attributes = await self._attributes(digest, step.channel, variables[digest.id])
            due.append(DueDigest(digest, found, contract, attributes))
        now = self._clock.now()
        rows = [self._row(each, text, now) for each, text in await self._rendered(due)]
        closed += [
            ClosedDigest(each.digest.id, row.id, row.error)
            for each, row in zip(due, rows, strict=True)
        ]
        if closed:
            await self._store.write(
                notifications.of_digests(scope, closed, rows, self._snapshots, self._ids, now)
            )
            self._wake_lanes()
        if problems:
            log.warning("digests_wait_for_target", digests=len(problems), why=problems[0][1])
            await self._store.write(digests.note_problems(problems))

    async def _attributes(
        self, digest: ClaimedDigest, channel: Channel, texts: Sequence[str]
    ) -> dict[str, Any]:
        """The variables of the newest event, all collected events, and their count."""
        events = [msgspec.json.decode(text) for text in texts]
        named = {
            **events[-1],
            "events": events,
            "count": digest.entries,
            "recipient": {"id": digest.recipient_id, "address": digest.address},
        }
        url = await self._unsubscriber.url_of(digest.scope, channel, digest.address)
        return named if url is None else {**named, VARIABLE: url}

    async def _rendered(
        self, due: Sequence[DueDigest]
    ) -> list[tuple[DueDigest, Rendered | RenderProblem]]:
        """In the given order; the digests of one step are rendered together."""
        texts: dict[DigestId, Rendered | RenderProblem] = {}
        by_step: dict[str, list[DueDigest]] = {}
        for each in due:
            by_step.setdefault(each.digest.step_id, []).append(each)
        for group in by_step.values():
            step = group[0].found.step
            answers = await self._renderer.render(
                group[0].digest.scope,
                step.subject,
                step.body,
                [msgspec.json.encode(each.attributes).decode() for each in group],
                html=_is_html(step),
            )
            for each, answer in zip(group, answers, strict=True):
                texts[each.digest.id] = answer
        return [(each, texts[each.digest.id]) for each in due]

    def _row(
        self, due: DueDigest, text: Rendered | RenderProblem, now: datetime
    ) -> NewNotification:
        digest, (step, urgent, _, purpose), contract = due.digest, due.found, due.contract
        zone = own_zone(due.attributes, digest.recipient_id)
        to = Addressee(RecipientId(digest.recipient_id), digest.address, None, zone)
        reason = error = None
        content = MessageContent(None, "", (), zone)
        if isinstance(text, RenderProblem):
            reason, error = RENDER_FAILED, text.detail
        elif text.subject is not None and breaks_header(text.subject):
            reason, error = INVALID_HEADER, "the rendered subject contains a control character"
        else:
            content = MessageContent(text.subject, text.body, (), zone, _is_html(step))
        kind, template = channel_kind(step.channel)
        target = contract.submission_target
        return NewNotification(
            OutboxId(self._ids.new()),
            target,
            self._fallback_of(target),
            lane_number(step.channel, to),
            step.channel,
            contract.gateway_type,
            to.recipient_id,
            to.address,
            content.subject,
            msgspec.json.encode(content.as_document()).decode(),
            idempotency_key("digest", digest.id),
            kind,
            template,
            now,
            urgent=urgent,
            step_id=step.id,
            status=ItemStatus.QUEUED if reason is None else ItemStatus.FAILED,
            reason=reason,
            error=error,
            purpose=purpose,
        )

    def _snapshots(self, targets: set[str]) -> dict[str, ContractSnapshot]:
        return snapshots(targets, self._contracts(), self._fallback_of)


def _is_html(step: WorkflowStep) -> bool:
    return step.channel is Channel.EMAIL and is_html(step.body)


def own_zone(attributes: Mapping[str, Any], recipient_id: str) -> str | None:
    """The recipient's own time zone, if they are one of the newest event's parties."""
    for name in (LEAD, PARTNER, AGENT):
        party = attributes.get(name)
        if isinstance(party, Mapping) and recipient_id_of(party.get("id"), name) == recipient_id:
            zone = party.get("timeZone")
            return zone if isinstance(zone, str) else None
    return None
