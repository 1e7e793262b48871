"""Workspace names, which settings refer to; rows use ids. A name never changes."""

from outrider.domain.ids import Scope
from outrider.domain.workspaces import WorkspaceName
from outrider.kernel.transactions import keys
from outrider.limits.kernel import Limits
from outrider.ports.store import Store


class WorkspaceNames:
    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._most = limits.workspace_names
        self._known: dict[Scope, WorkspaceName] = {}

    async def of(self, scope: Scope) -> WorkspaceName:
        if scope not in self._known:
            if len(self._known) >= self._most:
                self._known.clear()
            self._known[scope] = await self._store.read(keys.workspace_name(scope))
        return self._known[scope]
