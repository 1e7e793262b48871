"""Templates in user input: their size is checked here, their syntax by the renderer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from outrider.documents import one_line, storable
from outrider.limits.campaigns import BODY_MAX_BYTES, SUBJECT_MAX_CHARACTERS

TemplateCheck = Callable[[str], str | None]
"""What is wrong with a template's syntax, or None."""


@dataclass(frozen=True, slots=True)
class TemplateContext:
    """What models with templates need besides the document; pydantic passes it to validators."""

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


Subject = Annotated[
    str,
    Field(min_length=1, max_length=SUBJECT_MAX_CHARACTERS),
    AfterValidator(one_line),
    AfterValidator(template),
]
Body = Annotated[
    str,
    Field(min_length=1),
    AfterValidator(storable),
    AfterValidator(small),
    AfterValidator(template),
]
