"""Why a database is taken for one that was restored or promoted."""

from enum import StrEnum


class RestoredDatabase(StrEnum):
    MOVED = "it is not where its workers found it before: restored, copied or promoted"
    WENT_BACK = "it has gone back in time: it knows less than it did before"
