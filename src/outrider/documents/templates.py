"""Templates in what people write: their size is checked here, their syntax by who renders them."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationInfo

from outrider.settings import BODY_MAX_BYTES

TemplateCheck = Callable[[str], str | None]
"""What is wrong with a template's syntax, or None."""


@dataclass(frozen=True, slots=True)
class TemplateContext:
    """What models with templates need beside the document; pydantic carries it to validators."""

    check_template: TemplateCheck


def template(source: str, info: ValidationInfo) -> str:
    assert isinstance(info.context, TemplateContext)
    if wrong := info.context.check_template(source):
        raise ValueError(f"is not a template: {wrong}")
    return source


def small(body: str) -> str:
    if len(body.encode(errors="surrogatepass")) > BODY_MAX_BYTES:
        raise ValueError(f"should have at most {BODY_MAX_BYTES} bytes")
    return body
