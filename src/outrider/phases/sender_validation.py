"""The phase `sender_validation`: would mailbox providers trust this campaign's senders?

A job is one target and one domain in From; its items are the checks. Nothing is sent, and nothing
is held back: a campaign may be launched all the same.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from outrider.domain.errors import InvalidInput
from outrider.domain.ids import Scope
from outrider.domain.mailbox import mailbox
from outrider.domain.states import Channel
from outrider.gateways.mail_sender import MailSender
from outrider.limits.phases import DNS_TIMEOUT_SECONDS, DNS_TRIES
from outrider.phases.dns_records import DnsRecords
from outrider.phases.sender_checks import CHECKS, SenderChecks, SenderFinding, State
from outrider.ports.phases import PhaseContext, PhaseJob, PhaseJobPlan, PhaseResult

SenderOf = Callable[[Scope, str], Awaitable[MailSender | None]]
"""The sender of a workspace's target; None if its provider sends in its own name."""

OTHERS = "its provider sends and signs: check the domain in the provider's console"


class SenderValidation:
    name = "sender_validation"

    def __init__(
        self,
        sender_of: SenderOf,
        nameservers: Sequence[str] = (),
        *,
        has_links: bool = False,
        timeout_seconds: float = DNS_TIMEOUT_SECONDS,
        tries: int = DNS_TRIES,
    ) -> None:
        """`has_links`: this installation has a public URL, where it answers unsubscribe links."""
        self._sender_of, self._has_links = sender_of, has_links
        self._nameservers, self._timeout, self._tries = nameservers, timeout_seconds, tries

    async def plan(self, context: PhaseContext) -> Sequence[PhaseJobPlan]:
        one_click: dict[tuple[str, str | None], bool] = {}
        for message in context.definition.messages:
            if message.channel is Channel.EMAIL:
                named = message.head.sender
                place = message.submission_target, None if named is None else mailbox(named).domain
                bulk = not message.purpose.transactional
                one_click[place] = one_click.get(place, False) or bulk
        return [
            PhaseJobPlan(
                len(CHECKS),
                {"target": target, "oneClick": bulk}
                | ({} if domain is None else {"fromDomain": domain}),
            )
            for (target, domain), bulk in one_click.items()
        ]

    async def process(self, context: PhaseContext, job: PhaseJob) -> PhaseResult:
        task: Mapping[str, Any] = job.detail
        target = str(task["target"])
        try:
            sender = await self._sender_of(context.scope, target)
        except InvalidInput as error:
            found = SenderFinding("setup", State.FAILED, error.message, error.hint or "")
            return PhaseResult(0, failed=job.items, detail=_detail(target, [found]))
        if sender is None:
            found = SenderFinding("setup", State.NOT_NEEDED, OTHERS)
            return PhaseResult(0, skipped=job.items, detail=_detail(target, [found]))
        if (domain := task.get("fromDomain")) is not None:
            sender = sender.sending_from(domain)
        records = DnsRecords(self._nameservers, timeout_seconds=self._timeout, tries=self._tries)
        checks = SenderChecks(
            sender, records, one_click=bool(task["oneClick"]), has_links=self._has_links
        )
        findings = await checks.findings()
        states = [each.state for each in findings]
        passed, skipped = states.count(State.PASSED), states.count(State.NOT_NEEDED)
        return PhaseResult(
            passed,
            len(states) - passed - skipped,
            skipped,
            _detail(target, findings, sender.from_domain),
        )


def _detail(
    target: str, findings: Sequence[SenderFinding], from_domain: str | None = None
) -> dict[str, object]:
    place = {"target": target} if from_domain is None else {"target": target, "from": from_domain}
    return {**place, "findings": [each.as_document() for each in findings]}
