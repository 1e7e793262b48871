"""Which variables a template names: read from its source, without rendering anything."""

import re

from minijinja import Environment, TemplateError

from outrider.limits.rendering import RENDER_CHECK_HERE_MAX_CHARACTERS
from outrider.rendering.renderer import is_template

_environment = Environment()
_GLOBALS = frozenset(_environment.globals)


def variables_of(source: str) -> set[str]:
    """The required ones; none for a long template, since that is compiled elsewhere."""
    if not is_template(source) or len(source) > RENDER_CHECK_HERE_MAX_CHARACTERS:
        return set()
    try:
        named = _environment.undeclared_variables_in_str(source)
    except TemplateError:
        return set()
    return {name for name in named if name not in _GLOBALS and not _may_be_absent(name, source)}


def _may_be_absent(name: str, source: str) -> bool:
    """The template tests whether it is defined, or provides a default."""
    return bool(re.search(rf"\b{re.escape(name)}\s*(is\s+(not\s+)?defined|\|\s*default)", source))
