"""The conformance suite that every engine must pass: subclass it and provide a `bench` fixture.

    class TestMyEngine(EngineConformance):
        '''`bench` is what `engine_bench` makes of settings that name my engine and a database.'''

The provider simulator counts what was sent; what the run's log says is compared with that.
"""

from outrider.testing.engine_suite.bench import EngineBench, engine_bench
from outrider.testing.engine_suite.controls import ControlConformance
from outrider.testing.engine_suite.lanes import LaneConformance
from outrider.testing.engine_suite.runs import RunConformance

__all__ = ["EngineBench", "EngineConformance", "engine_bench"]


class EngineConformance(RunConformance, ControlConformance, LaneConformance):
    """All that an engine moves, over one database and one provider."""
