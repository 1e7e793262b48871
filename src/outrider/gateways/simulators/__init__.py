"""The providers that the simulator plays, one file each; older ones are rows of `sandbox_*.py`."""

from collections.abc import Mapping
from typing import Final

from outrider.gateways.sandbox_protocol import Simulator

SIMULATORS: Final[Mapping[str, Simulator]] = {
    each.provider.protocol: each for each in tuple[Simulator, ...](())
}
