"""Workspaces by name: a tenant's project in an environment, as operators write them in settings."""

import re
from collections.abc import Iterable
from typing import NamedTuple

EVERYBODY = "*"
WORKSPACE_PATTERN = r"[^/*\s]+/[^/*\s]+/[^/*\s]+"
SHARED_WITH_PATTERN = rf"\*|[^/*\s]+/\*|{WORKSPACE_PATTERN}"


class WorkspaceName(NamedTuple):
    """Contract 002's tenantId and environmentId, and the project between them."""

    tenant: str
    project: str
    environment: str

    def __str__(self) -> str:
        return "/".join(self)

    @classmethod
    def parse(cls, text: str) -> "WorkspaceName":
        """From TENANT/PROJECT/ENVIRONMENT."""
        if re.fullmatch(WORKSPACE_PATTERN, text) is None:
            raise ValueError("should be TENANT/PROJECT/ENVIRONMENT")
        return cls(*text.split("/"))

    def is_among(self, patterns: Iterable[str]) -> bool:
        """Whether one of these patterns matches it: its name, TENANT/* or *."""
        return not {str(self), f"{self.tenant}/*", EVERYBODY}.isdisjoint(patterns)


DEFAULT_WORKSPACE_NAME = WorkspaceName("default", "default", "default")
OPERATOR = WorkspaceName("", "", "")
"""No workspace: what the process itself needs, such as a webhook's signing secret."""
