"""`outrider` in a process of its own whose clock a test can move, through a file."""

import os
from functools import partial
from pathlib import Path

from outrider.bootstrap import open_outrider
from outrider.cli import session
from outrider.cli.app import main
from outrider.testing.clock import ShiftedClock

if __name__ == "__main__":
    clock = ShiftedClock(Path(os.environ["OUTRIDER_TEST_CLOCK"]))
    session.open_outrider = partial(open_outrider, clock=clock)  # type: ignore[attr-defined]
    main()
