"""Statements as SQLite has them: a few are two, which run one after the other."""

import re


def answering(sql: str) -> str:
    """The one of them that answers: with RETURNING, or the last."""
    each = sql.split(";\n")
    return next((one for one in each if re.search(r"\bRETURNING\b", one)), each[-1])
