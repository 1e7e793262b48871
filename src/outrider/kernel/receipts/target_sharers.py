"""The target sharers: which workspaces' messages a provider reports together, by target.

Settings say it by name and the ledger by id. Workspaces are read again now and then, and only where
a target is shared at all.
"""

from collections.abc import Callable, Collection

from outrider.domain.ids import DEFAULT_SCOPE, Scope
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import keys
from outrider.kernel.transactions.receipt_sharing import NOBODY, Sharers
from outrider.limits.receipts import ReceiptLimits

SharesReports = Callable[[str, WorkspaceName], bool]
"""Whether a workspace is among those that share a submission target."""


class TargetSharers:
    def __init__(
        self,
        foundation: Foundation,
        targets: Collection[str],
        shares: SharesReports,
        receipt_limits: ReceiptLimits,
    ) -> None:
        """`targets` are those shared with at least one workspace."""
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._targets = targets
        self._shares = shares
        self._receipt_limits = receipt_limits
        self._known: Sharers = NOBODY
        self._read_at: float | None = None

    def inbox_of(self, workspace: WorkspaceName, submission_target: str) -> WorkspaceName:
        """The workspace that stores the receipts posted to a workspace's URL. With a shared secret
        they may belong to any workspace that shares it, so the default workspace, which owns the
        secret, stores them."""
        if submission_target in self._targets and self._shares(submission_target, workspace):
            return DEFAULT_WORKSPACE_NAME
        return workspace

    async def known(self) -> Sharers:
        if not self._targets:
            return NOBODY
        now = self._clock.monotonic()
        trust_seconds = self._receipt_limits.sharers_trust_seconds
        if self._read_at is None or now - self._read_at > trust_seconds:
            names = await self._store.read(keys.workspaces(self._limits.page_items))
            self._known = {target: self._who(target, names) for target in self._targets}
            self._read_at = now
        return self._known

    def _who(self, target: str, names: dict[Scope, WorkspaceName]) -> frozenset[Scope]:
        # They go to the default workspace's inbox, which needs nobody else's settings.
        sharing = {scope for scope, name in names.items() if self._shares(target, name)}
        return frozenset(sharing | {DEFAULT_SCOPE})
