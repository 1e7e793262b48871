"""Rendering a window of messages: templates and attributes go in, texts or problems come out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Rendered(NamedTuple):
    subject: str | None
    body: str


@dataclass(frozen=True, slots=True)
class RenderProblem:
    """This one message cannot be rendered; `detail` names the variable or the limit."""

    detail: str


class Renderer(Protocol):
    async def render(
        self, subject: str | None, body: str, attributes: Sequence[str], *, html: bool
    ) -> list[Rendered | RenderProblem]:
        """Render the template once for each JSON object of `attributes`, in order."""
        ...

    async def close(self) -> None: ...
