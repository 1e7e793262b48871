"""The phase `dns_validation`: members whose e-mail domain takes no mail are marked before a launch.

It is judged by the text of an address, which is stable; the mark is not, because this phase sets
it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from outrider.domain.addresses import normalise_email
from outrider.domain.recipients import AddressKind
from outrider.limits.phases import DNS_DOMAINS_SHOWN_MAX, DNS_TIMEOUT_SECONDS, DNS_TRIES
from outrider.phases.mail_domains import DomainVerdict, MailDomains, Reception
from outrider.ports.phases import AudienceMember, PhaseContext, PhaseJob, PhaseJobPlan, PhaseResult


class DnsValidation:
    name = "dns_validation"

    def __init__(
        self,
        nameservers: Sequence[str] = (),
        *,
        timeout_seconds: float = DNS_TIMEOUT_SECONDS,
        tries: int = DNS_TRIES,
    ) -> None:
        self._domains = MailDomains(nameservers, timeout_seconds=timeout_seconds, tries=tries)

    async def plan(self, context: PhaseContext) -> Sequence[PhaseJobPlan]:
        jobs = []
        for first in range(0, await context.positions(), context.definition.batch_size):
            last = first + context.definition.batch_size - 1
            items = sum(1 for _ in _with_domain(await context.members(first, last)))
            if items:
                jobs.append(PhaseJobPlan(items, {"first": first, "last": last}))
        return jobs

    async def process(self, context: PhaseContext, job: PhaseJob) -> PhaseResult:
        task: Mapping[str, Any] = job.detail
        members = await context.members(int(task["first"]), int(task["last"]))
        asked = list(_with_domain(members))
        verdicts = await self._domains.verdicts(domain for _, domain in asked)
        succeeded = failed = skipped = 0
        refused: list[int] = []
        bad: Counter[str] = Counter()
        for member, domain in asked:
            reception = verdicts[domain].reception
            marked = bool(member.invalid & AddressKind.EMAIL.value)
            if reception is Reception.REFUSES:
                bad[domain] += 1
                if not marked:
                    refused.append(member.position)
            if marked or reception is Reception.REFUSES:
                # Already marked, by an interrupted try of this job or by an earlier run: the launch
                # will skip them, whatever DNS says today.
                skipped += 1
            elif reception is Reception.UNKNOWN:
                bad[domain] += 1
                failed += 1
            else:
                succeeded += 1
        if refused:
            await context.mark_invalid(AddressKind.EMAIL, refused)
        return PhaseResult(succeeded, failed, skipped, _detail(bad, verdicts))


def _with_domain(members: Sequence[AudienceMember]) -> Iterator[tuple[AudienceMember, str]]:
    for member in members:
        if member.email is not None and normalise_email(member.email) == member.email:
            yield member, member.email.rpartition("@")[2]


def _detail(bad: Counter[str], verdicts: Mapping[str, DomainVerdict]) -> dict[str, object]:
    """The domains that matter most, and how many more there are."""
    if not bad:
        return {}
    ranked = sorted(bad.items(), key=lambda entry: (-entry[1], entry[0]))
    shown = [
        {"domain": domain, "why": verdicts[domain].why, "recipients": recipients}
        for domain, recipients in ranked[:DNS_DOMAINS_SHOWN_MAX]
    ]
    return {"domains": shown, "domainsNotShown": len(ranked) - len(shown)}
