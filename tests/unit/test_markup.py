"""HTML is what its author wrote as HTML, whatever is filled in later."""

import pytest

from outrider.domain.markup import is_html


@pytest.mark.parametrize(
    "template",
    ["<p>", "  \n<html>", "{# note #}<p>", "{% if x %}\n<p>{% endif %}", "{# a #} {% b %}<i>"],
)
def test_a_text_that_starts_with_a_tag_is_html(template: str) -> None:
    assert is_html(template)


@pytest.mark.parametrize(
    "template", ["", "Hi <b>", "{{ name }}<p>", "{# <p>", "{% <p>", "&lt;p&gt;", "{#" * 10_000]
)
def test_anything_else_is_not(template: str) -> None:
    assert not is_html(template)
