"""The campaign deployer: creates campaigns, and provides the script that launches them.

It only ever writes `queued`. The applicable contract is chosen here, once, and snapshotted.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing

import structlog

from outrider.domain.campaigns import CampaignDefinition
from outrider.domain.errors import InvalidInput, Problem, StoreRefused
from outrider.domain.ids import CampaignId, Scope
from outrider.domain.mailbox import mailbox
from outrider.domain.phases import AUDIENCE_IMPORT
from outrider.domain.recipients import Recipient
from outrider.domain.submission import Contract, GatewayType
from outrider.kernel.contracts.contract_cache import snapshots
from outrider.kernel.control.audience_writer import (
    AudienceWriter,
    chained,
    windows_of,
)
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import audience, campaigns, deployment, intakes
from outrider.kernel.transactions.audience import unwatched
from outrider.kernel.transactions.deployment import ContractSnapshot, RunStart
from outrider.limits.campaigns import IMPORT_WINDOW_ITEMS
from outrider.ports.store import Transaction

log = structlog.get_logger()

SenderDomains = Callable[[Scope, str], Awaitable[frozenset[str]]]
"""The mail domains that a target of a workspace may send from."""


class CampaignDeployer:
    def __init__(
        self,
        foundation: Foundation,
        writer: AudienceWriter,
        contracts: Callable[[], Mapping[str, Contract]],
        gateway_types: Mapping[str, GatewayType],
        fallback_of: Callable[[str], str | None],
        sender_domains: SenderDomains,
    ) -> None:
        self._store = foundation.store
        self._writer = writer
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._contracts = contracts
        self._gateway_types = gateway_types
        self._fallback_of = fallback_of
        self._sender_domains = sender_domains

    async def create(
        self,
        scope: Scope,
        definition: CampaignDefinition,
        recipients: Iterable[Recipient],
        actor: str,
        progress: Callable[[int], None] | None = None,
    ) -> tuple[CampaignId, int]:
        """Returns the campaign's id and the size of its audience."""
        self._check_targets(definition)
        await self._check_senders(scope, definition)
        campaign_id, size = await self._created(scope, definition, recipients, actor, progress)
        log.info(
            "campaign_created", campaign_id=campaign_id, recipients=size,
            phases=list(definition.phases),
        )  # fmt: skip
        return campaign_id, size

    async def _created(
        self,
        scope: Scope,
        definition: CampaignDefinition,
        recipients: Iterable[Recipient],
        actor: str,
        progress: Callable[[int], None] | None,
    ) -> tuple[CampaignId, int]:
        campaign_id = CampaignId(self._ids.new())

        def created(write_audience: Transaction[int]) -> Transaction[int]:
            return campaigns.create_campaign(
                scope, campaign_id, definition, write_audience, self._ids, self._clock.now(), actor
            )

        staged = AUDIENCE_IMPORT in definition.phases
        watch = progress or unwatched
        try:
            async with aclosing(windows_of(recipients)) as windows:
                first: list[Recipient] = await anext(windows, [])
                if len(first) < IMPORT_WINDOW_ITEMS:
                    whole = _whole(campaign_id, first, watch, staged=staged)
                    return campaign_id, await self._store.write(created(whole))
                begin = intakes.begin_of_new_campaign(
                    campaign_id, self._ids.new(), self._writer.expiry()
                )
                async with self._writer.taking_in(begin) as intake:
                    all_windows = chained(first, windows)
                    size = await self._writer.write(
                        intake, all_windows, staged=staged, is_new=True, progress=watch
                    )
                    last = created(intakes.close_new(intake, size, staged=staged))
                    return campaign_id, await self._store.write(last)
        except StoreRefused as refused:
            raise InvalidInput(
                "two recipients have the same id", hint="give every recipient a unique id"
            ) from refused

    def launch(self, run_start: RunStart) -> Transaction[int]:
        """The script of a launch, for callers that do more in the same transaction."""
        most = self._limits.job_max_attempts
        now = self._clock.now()
        return deployment.launch(
            run_start, self._snapshots, self._fallback_of, most, self._ids, now
        )

    def _snapshots(self, targets: set[str]) -> Mapping[str, ContractSnapshot]:
        return snapshots(targets, self._contracts(), self._fallback_of)

    def _check_targets(self, definition: CampaignDefinition) -> None:
        """Refuse a campaign that could never be sent when it is created, not when it is due."""
        problems, in_force = [], self._contracts()
        for index, message in enumerate(definition.messages):
            path = f"messages[{index}].submissionTarget"
            contract = in_force.get(message.submission_target)
            if contract is None:
                known = ", ".join(sorted(in_force)) or "none"
                problems.append(
                    Problem(path, f"'{message.submission_target}' is not in the registry ({known})")
                )
                continue
            channel = self._gateway_types[contract.gateway_type].channel
            if channel is not message.channel:
                problems.append(
                    Problem(
                        path,
                        f"'{message.submission_target}' sends {channel.value}, "
                        f"but the message's channel is {message.channel.value}",
                    )
                )
        if problems:
            raise InvalidInput("the campaign does not match the registry", problems)

    async def _check_senders(self, scope: Scope, definition: CampaignDefinition) -> None:
        problems = []
        for index, message in enumerate(definition.messages):
            if message.head.sender is None:
                continue
            domain = mailbox(message.head.sender).domain
            allowed = await self._sender_domains(scope, message.submission_target)
            if domain not in allowed:
                known = ", ".join(sorted(allowed))
                target = message.submission_target
                problems.append(
                    Problem(
                        f"messages[{index}].from",
                        f"'{target}' may send from {known}, and not from {domain}; its operator"
                        " can add it to the target's allowed_senders",
                    )
                )
        if problems:
            raise InvalidInput("the campaign names senders that are not allowed", problems)


def _whole(
    campaign_id: CampaignId,
    recipients: Sequence[Recipient],
    progress: Callable[[int], None],
    *,
    staged: bool,
) -> Transaction[int]:
    """A campaign with an audience_import keeps its recipients as given until that phase runs."""
    if staged:
        return audience.stage(campaign_id, recipients, progress)
    return audience.insert(campaign_id, recipients, progress, is_new=True)
