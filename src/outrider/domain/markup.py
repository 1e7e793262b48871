"""Whether a text is HTML: decided once, from what its author wrote, not from what is filled in.

The escaping of a template and the content type of its message must agree.
"""

import re

_BEFORE_CONTENT = re.compile(r"(?:\s|\{#.*?#\}|\{%.*?%\})*", re.DOTALL)


def is_html(template: str) -> bool:
    """It begins with a tag; comments and statements of the template print nothing."""
    found = _BEFORE_CONTENT.match(template)
    return template.startswith("<", found.end() if found else 0)
