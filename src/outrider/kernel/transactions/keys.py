"""API keys and workspaces: created, listed, revoked and found. Secrets never reach this layer."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from outrider.domain.errors import NotFound
from outrider.domain.ids import DEFAULT_SCOPE, Scope, TenantId, WorkspaceId, is_uuid
from outrider.domain.keys import KeyId, KeyScope
from outrider.domain.workspaces import WorkspaceName
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.paging import FIRST
from outrider.ports.clock import IdSource
from outrider.ports.store import Row, Transaction, ask


class ApiKeyRecord(NamedTuple):
    id: KeyId
    name: str
    scopes: frozenset[KeyScope]
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewApiKey:
    scope: Scope
    id: KeyId
    name: str
    scopes: frozenset[KeyScope]
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)


class KeyToCheck(NamedTuple):
    """A key that is not revoked, with what proves its secret."""

    scope: Scope
    name: str
    scopes: frozenset[KeyScope]
    salt: bytes
    digest: bytes


def create(new: NewApiKey, actor: str, ids: IdSource, now: datetime) -> Transaction[ApiKeyRecord]:
    yield from ask(
        "insert_api_key",
        **new.scope._asdict(),
        id=new.id,
        name=new.name,
        scopes=" ".join(in_order(new.scopes)),
        salt=new.salt,
        digest=new.digest,
        now=now,
    )
    made = ApiKeyRecord(new.id, new.name, new.scopes, now, None)
    yield from record([_entry(new.scope, "key.created", actor, made)], ids, now)
    return made


def create_first(
    new: NewApiKey, actor: str, ids: IdSource, now: datetime
) -> Transaction[ApiKeyRecord | None]:
    """None if the workspace has a working key."""
    place = new.scope._asdict()
    yield from ask("lock_workspace", **place)
    if (yield from ask("usable_api_key", **place)):
        return None
    return (yield from create(new, actor, ids, now))


def revoke(
    scope: Scope, key_id: KeyId, actor: str, ids: IdSource, now: datetime
) -> Transaction[ApiKeyRecord]:
    """The key as it is now; one that was already revoked is unchanged."""
    place = {**scope._asdict(), "id": key_id}
    revoked = is_uuid(key_id) and (yield from ask("revoke_api_key", **place, now=now))
    rows = (yield from ask("api_key_by_id", **place)) if is_uuid(key_id) else []
    if not rows:
        raise NotFound(f"there is no key {key_id}", hint="`outrider key list` shows them")
    found = _record(rows[0])
    if revoked:
        yield from record([_entry(scope, "key.revoked", actor, found)], ids, now)
    return found


def page(scope: Scope, after: str, most: int) -> Transaction[list[ApiKeyRecord]]:
    rows = yield from ask("api_keys_page", **scope._asdict(), after=after, most=most)
    return [_record(row) for row in rows]


def to_check(key_id: KeyId) -> Transaction[KeyToCheck | None]:
    rows = yield from ask("api_key_to_check", id=key_id)
    if not rows:
        return None
    tenant_id, workspace_id, name, scopes, salt, digest = rows[0]
    scope = Scope(TenantId(tenant_id), WorkspaceId(workspace_id))
    return KeyToCheck(scope, name, _scopes(scopes), salt, digest)


def find_workspace(named: WorkspaceName) -> Transaction[Scope | None]:
    tenants = yield from ask("tenant_by_name", name=named.tenant)
    if not tenants:
        return None
    tenant_id = TenantId(tenants[0][0])
    found = yield from _workspace(tenant_id, named)
    return Scope(tenant_id, found) if found else None


def workspace_name(scope: Scope) -> Transaction[WorkspaceName]:
    rows = yield from ask("workspace_name", **scope._asdict())
    return WorkspaceName(*rows[0])


def workspaces(page_items: int) -> Transaction[dict[Scope, WorkspaceName]]:
    """All that there are."""
    found: dict[Scope, WorkspaceName] = {}
    after = FIRST
    while True:
        rows = yield from ask("workspaces_page", after=after, most=page_items)
        for workspace_id, tenant_id, *name in rows:
            found[Scope(TenantId(tenant_id), WorkspaceId(workspace_id))] = WorkspaceName(*name)
        if len(rows) < page_items:
            return found
        after = rows[-1][0]


def open_workspace(named: WorkspaceName, ids: IdSource, now: datetime) -> Transaction[Scope]:
    # Creating a tenant locks a row that always exists, so that a name is assigned once.
    yield from ask("lock_workspace", **DEFAULT_SCOPE._asdict())
    tenants = yield from ask("tenant_by_name", name=named.tenant)
    tenant_id = TenantId(tenants[0][0] if tenants else ids.new())
    if not tenants:
        yield from ask("insert_tenant", id=tenant_id, name=named.tenant, now=now)
    workspace_id = yield from _workspace(tenant_id, named)
    if workspace_id is None:
        workspace_id = WorkspaceId(ids.new())
        yield from ask(
            "insert_workspace",
            id=workspace_id,
            tenant_id=tenant_id,
            project=named.project,
            environment=named.environment,
            now=now,
        )
    return Scope(tenant_id, workspace_id)


def in_order(scopes: Iterable[KeyScope]) -> list[KeyScope]:
    given = set(scopes)
    return [scope for scope in KeyScope if scope in given]


def _workspace(tenant_id: TenantId, named: WorkspaceName) -> Transaction[WorkspaceId | None]:
    rows = yield from ask(
        "workspace_by_name",
        tenant_id=tenant_id,
        project=named.project,
        environment=named.environment,
    )
    return WorkspaceId(rows[0][0]) if rows else None


def _record(row: Row) -> ApiKeyRecord:
    key_id, name, scopes, created_at, revoked_at = row
    return ApiKeyRecord(KeyId(key_id), name, _scopes(scopes), created_at, revoked_at)


def _scopes(text: str) -> frozenset[KeyScope]:
    return frozenset(map(KeyScope, text.split()))


def _entry(scope: Scope, event: str, actor: str, key: ApiKeyRecord) -> AuditEntry:
    detail: dict[str, object] = {
        "keyId": key.id, "name": key.name, "scopes": in_order(key.scopes),
    }  # fmt: skip
    return AuditEntry(scope, event, actor, detail=detail)
