"""What all models have in common; the models themselves are generated."""

from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

Item = TypeVar("Item")


class Model(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Fields that this version does not know are ignored, so that a newer server can be called."""


class Page(Model, Generic[Item], frozen=True, kw_only=True):
    items: list[Item]
    next: str | None = None
    """The `after` of the next page; None on the last page."""


class OpenEnum(StrEnum):
    """The values of this version; a newer server's value is kept as it is."""

    @classmethod
    def _missing_(cls, value: object) -> "OpenEnum":
        member = str.__new__(cls, value)
        member._name_ = member._value_ = str(value)
        return member
