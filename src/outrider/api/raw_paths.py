"""Routes that read the path as it was sent: a slash inside a client's own id is not a separator.

Servers decode `%2F` before they route, so that the event `a/explain` and the explanation of the
event `a` would be the same path. An encoded slash belongs to the id.
"""

from urllib.parse import unquote

from starlette.routing import Match
from starlette.types import Scope

from outrider.api.route import ApiRoute


class RawPathRoute(ApiRoute):
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw: bytes | None = scope.get("raw_path")
        if raw is None:
            return super().matches(scope)
        match, inner = super().matches({**scope, "path": raw.decode("latin-1")})
        if "path_params" in inner:
            given = inner["path_params"].items()
            inner["path_params"] = {name: unquote(value) for name, value in given}
        return match, inner
