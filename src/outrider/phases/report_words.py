"""Strangers' words on a page: names, ids and reasons go in, HTML that is only text comes out."""

from html import escape

from outrider.domain.texts import storable


def plain(given: object) -> str:
    """For titles and attributes, which hold no elements."""
    return escape(storable(str(given)) or "")


def said(given: object) -> str:
    """Set apart from the words around it, or a right-to-left mark in it would turn those around."""
    return f"<bdi>{plain(given)}</bdi>"
