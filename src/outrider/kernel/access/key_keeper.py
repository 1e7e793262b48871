"""The key keeper: creates API keys, shows each once, revokes them, and authenticates callers.

A valid key is cached for a few seconds; an invalid one is looked up each time.
"""

import hmac
from collections.abc import Callable, Collection, Sequence

from cachetools import TTLCache

from outrider.domain.errors import InvalidInput, NotFound, Problem
from outrider.domain.ids import DEFAULT_SCOPE, Scope, is_uuid
from outrider.domain.keys import (
    KEY_SALT_BYTES,
    KEY_SECRET_BYTES,
    KeyId,
    KeyScope,
    Principal,
    is_secret,
    key_text,
    parse_key,
    secret_digest,
)
from outrider.domain.workspaces import WorkspaceName
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import keys
from outrider.kernel.transactions.keys import ApiKeyRecord, NewApiKey
from outrider.limits.access import KEY_REMEMBER_SECONDS, KEYS_REMEMBERED, ROOT_KEY_MIN_CHARACTERS
from outrider.limits.campaigns import NAME_MAX_CHARACTERS

ROOT_NAME = "root"
ROOT = Principal(DEFAULT_SCOPE, KeyId(ROOT_NAME), ROOT_NAME, frozenset({KeyScope.ADMIN}))
FIRST_NAME = "first"


class KeyKeeper:
    def __init__(
        self, foundation: Foundation, random_bytes: Callable[[int], bytes], root_key: str | None
    ) -> None:
        if root_key is not None and len(root_key) < ROOT_KEY_MIN_CHARACTERS:
            raise InvalidInput(
                f"the root key has fewer than {ROOT_KEY_MIN_CHARACTERS} characters",
                hint="set OUTRIDER_ROOT_KEY to a long random string",
            )
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._random_bytes = random_bytes
        self._salt = random_bytes(KEY_SALT_BYTES)
        self._root_digest = None if root_key is None else self._digest(root_key)
        # Compared against when a record does not exist, so that its absence takes as long to find.
        self._absent_key = random_bytes(KEY_SALT_BYTES), random_bytes(KEY_SECRET_BYTES)
        self._remembered: TTLCache[bytes, Principal] = TTLCache(
            KEYS_REMEMBERED, KEY_REMEMBER_SECONDS, foundation.clock.monotonic
        )
        self._revocations = 0

    async def create(
        self, scope: Scope, name: str, scopes: Collection[KeyScope], actor: str
    ) -> tuple[ApiKeyRecord, str]:
        """The record and the key's text, which cannot be shown again."""
        new, text = self._new(scope, name, scopes)
        made = await self._store.write(keys.create(new, actor, self._ids, self._clock.now()))
        return made, text

    async def ensure_first_key(self, actor: str) -> str | None:
        """The text of a new key, if the workspace has no working key yet."""
        if self._root_digest is not None:
            return None
        new, text = self._new(DEFAULT_SCOPE, FIRST_NAME, {KeyScope.ADMIN})
        made = await self._store.write(keys.create_first(new, actor, self._ids, self._clock.now()))
        return text if made else None

    async def list(self, scope: Scope, after: str, most: int) -> Sequence[ApiKeyRecord]:
        """Oldest first, including revoked keys."""
        if not is_uuid(after):
            raise InvalidInput(f"'{after}' is not the id of a key")
        return await self._store.read(keys.page(scope, after, most))

    async def revoke(self, scope: Scope, key_id: KeyId, actor: str) -> ApiKeyRecord:
        try:
            return await self._store.write(
                keys.revoke(scope, key_id, actor, self._ids, self._clock.now())
            )
        finally:
            # Even on failure: the revocation may have been committed before the response was lost.
            self._forget(key_id)

    async def authenticate(self, text: str) -> Principal | None:
        digest = self._digest(text)
        if self._root_digest is not None and hmac.compare_digest(digest, self._root_digest):
            return ROOT
        presented = parse_key(text)
        if presented is None:
            return None
        known = self._remembered.get(digest)
        if known is not None:
            return known
        revocations = self._revocations
        found = await self._store.read(keys.to_check(presented.key_id))
        salt, kept = (found.salt, found.digest) if found else self._absent_key
        if not is_secret(presented.secret, salt, kept) or found is None:
            return None
        principal = Principal(found.scope, presented.key_id, found.name, found.scopes)
        # A record read before a revocation must not be cached after it.
        if revocations == self._revocations:
            self._remembered[digest] = principal
        return principal

    async def principal_of(self, key_id: KeyId) -> Principal | None:
        """The principal of a key whose secret was proven earlier; None once the key is revoked."""
        # Cannot collide with the digest of a key's text, which has a different length.
        remembered_as = key_id.encode()
        known = self._remembered.get(remembered_as)
        if known is not None:
            return known
        revocations = self._revocations
        found = await self._store.read(keys.to_check(key_id))
        if found is None:
            return None
        principal = Principal(found.scope, key_id, found.name, found.scopes)
        if revocations == self._revocations:
            self._remembered[remembered_as] = principal
        return principal

    async def open_workspace(self, tenant_name: str, project: str, environment: str) -> Scope:
        """Find the workspace, or create it."""
        named = _checked(WorkspaceName(tenant_name, project, environment))
        return await self._store.write(keys.open_workspace(named, self._ids, self._clock.now()))

    async def find_workspace(self, tenant_name: str, project: str, environment: str) -> Scope:
        named = _checked(WorkspaceName(tenant_name, project, environment))
        found = await self._store.read(keys.find_workspace(named))
        if found is None:
            raise NotFound(
                f"there is no workspace {'/'.join(named)}",
                hint="`outrider key create --workspace` creates it with its first key",
            )
        return found

    def _new(self, scope: Scope, name: str, scopes: Collection[KeyScope]) -> tuple[NewApiKey, str]:
        _check_key(name, scopes)
        key_id = KeyId(self._ids.new())
        salt, secret = self._random_bytes(KEY_SALT_BYTES), self._random_bytes(KEY_SECRET_BYTES)
        new = NewApiKey(scope, key_id, name, frozenset(scopes), salt, secret_digest(salt, secret))
        return new, key_text(key_id, secret)

    def _digest(self, text: str) -> bytes:
        return secret_digest(self._salt, text.encode(errors="surrogatepass"))

    def _forget(self, key_id: KeyId) -> None:
        self._revocations += 1
        for digest, principal in tuple(self._remembered.items()):
            if principal.key_id == key_id:
                self._remembered.pop(digest, None)


def _check_key(name: str, scopes: Collection[KeyScope]) -> None:
    problems = _name_problems("name", name)
    if name == ROOT_NAME:
        problems.append(Problem("name", f"'{ROOT_NAME}' is reserved for the root key"))
    if not scopes:
        problems.append(Problem("scopes", f"should have one of {', '.join(KeyScope)}"))
    if problems:
        raise InvalidInput("the key cannot be created", problems)


def _checked(named: WorkspaceName) -> WorkspaceName:
    problems = [
        problem for path, name in named._asdict().items() for problem in _name_problems(path, name)
    ]
    problems += [
        Problem(path, "must not contain '/'")
        for path, name in named._asdict().items()
        if "/" in name
    ]
    if problems:
        raise InvalidInput(
            f"'{'/'.join(named)}' is not a workspace", problems,
            hint="use the form TENANT/PROJECT/ENVIRONMENT",
        )  # fmt: skip
    return named


def _name_problems(path: str, name: str) -> list[Problem]:
    if not name.strip() or len(name) > NAME_MAX_CHARACTERS:
        return [Problem(path, f"should have 1 to {NAME_MAX_CHARACTERS} characters")]
    if not name.isprintable():
        return [Problem(path, "should be one line without control characters")]
    return []
