"""Who is signed in, on the wire."""

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field

from outrider.api.models.common import Answer
from outrider.documents import Document
from outrider.domain.keys import KeyScope
from outrider.domain.workspaces import WorkspaceName
from outrider.kernel.access.session_keeper import Session

KEY_MAX_CHARACTERS = 4_096


class SignInBody(Document):
    model_config = ConfigDict(json_schema_extra={"examples": [{"key": "outrider_…"}]})

    key: Annotated[str, Field(min_length=1, max_length=KEY_MAX_CHARACTERS, repr=False)]


class WorkspaceAnswer(Answer):
    tenant: str
    project: str
    environment: str


class SessionAnswer(Answer):
    name: str = Field(description="Name of the key.")
    scopes: list[KeyScope] = Field(description="All scopes of the key.")
    workspace: WorkspaceAnswer
    csrf_token: str = Field(description="Send it with every change, as X-CSRF-Token.")
    expires_at: datetime

    @classmethod
    def of(cls, session: Session, workspace: WorkspaceName) -> "SessionAnswer":
        return cls(
            name=session.principal.name,
            scopes=[scope for scope in KeyScope if session.principal.allows(scope)],
            workspace=WorkspaceAnswer(**workspace._asdict()),
            csrf_token=session.csrf_token,
            expires_at=session.expires_at,
        )
