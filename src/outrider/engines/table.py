"""The engines by name: the one line that a new engine adds besides its own folder.

It names the function that makes the engine from `EngineParts`, imported only when used: an engine's
library need not be installed for the others.
"""

from typing import Final

ENGINES: Final[dict[str, str]] = {
    "local": "outrider.engines.local:make_engine",
    "conductor": "outrider.engines.conductor.engine:make_engine",
    "temporal": "outrider.engines.temporal.engine:make_engine",
}


def known_engine(name: str) -> str:
    if name not in ENGINES:
        raise ValueError(f"should be {' or '.join(repr(each) for each in ENGINES)}")
    return name
