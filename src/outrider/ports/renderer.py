"""Rendering a window of messages: templates and attributes go in, texts or problems come out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from outrider.domain.ids import Scope


class Rendered(NamedTuple):
    subject: str | None
    body: str


@dataclass(frozen=True, slots=True)
class RenderProblem:
    """This one message cannot be rendered; `detail` names the variable or the limit."""

    detail: str


class Renderer(Protocol):
    async def render(
        self, scope: Scope, subject: str | None, body: str, attributes: Sequence[str], *, html: bool
    ) -> list[Rendered | RenderProblem]:
        """Render the template once for each JSON object of `attributes`, in order.

        Charged to this workspace's share: it takes nothing from any other.
        """
        ...

    async def close(self) -> None: ...
