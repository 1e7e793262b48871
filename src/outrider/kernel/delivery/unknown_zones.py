"""Unknown zones: a name that is no time zone is logged once, however many recipients have it."""

import structlog

from outrider.limits.workflows import UNKNOWN_ZONES_REMEMBERED

log = structlog.get_logger()


class UnknownZones:
    def __init__(self) -> None:
        self._noted: set[str] = set()

    def note(self, name: str) -> None:
        if name not in self._noted and len(self._noted) < UNKNOWN_ZONES_REMEMBERED:
            self._noted.add(name)
            log.warning("time_zone_unknown", time_zone=name)
