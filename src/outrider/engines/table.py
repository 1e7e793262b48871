"""The engines by name, and their settings: the two lines that a new engine adds besides its folder.

`ENGINES` names the function that makes an engine from `EngineParts`, imported only when used: an
engine's library need not be installed for the others.
"""

from typing import Final

from outrider.engines.conductor.settings import ConductorSettings
from outrider.engines.temporal.settings import TemporalSettings

ENGINES: Final[dict[str, str]] = {
    "local": "outrider.engines.local:make_engine",
    "conductor": "outrider.engines.conductor.engine:make_engine",
    "temporal": "outrider.engines.temporal.engine:make_engine",
}


class EngineSettings(ConductorSettings, TemporalSettings):
    """The settings that engines bring along, each from its own folder."""


def known_engine(name: str) -> str:
    if name not in ENGINES:
        raise ValueError(f"should be {' or '.join(repr(each) for each in ENGINES)}")
    return name
