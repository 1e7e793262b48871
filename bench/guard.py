"""The speed guard: Outrider must not become much slower relative to raw row writes.

Both run alternately, in one run on one machine, and the best of each is compared: other load
affects both. A ratio that is too low is measured again before the guard fails.
"""

import argparse
import sys
import time

from catalogue import BY_NAME, LIMITS, OUTRIDER, Measure
from processes import Failed
from run import Plan, figures, take
from servers import Servers

COUNT = 5_000
ROUNDS = 3
LEAST_RATIO = 0.42
"""0.85 of the lowest that a gate on two processors has seen, which was 0.49."""
TRIES = 3
BEGIN_SECONDS = 12.0
"""No further round begins after this, however busy the machine is."""
PLAN = Plan(COUNT, ROUNDS, 0, 0.0, (), 0, frozenset({Measure.END_TO_END}))


def best_rates(names: tuple[str, ...]) -> dict[str, float]:
    """Messages per second, end to end; the best of the rounds."""
    best = dict.fromkeys(names, 0.0)
    servers = Servers()
    try:
        began = time.monotonic()
        for number in range(ROUNDS):
            if number and time.monotonic() - began > BEGIN_SECONDS:
                break
            for name in names:
                measured = take(BY_NAME[name], Measure.END_TO_END, 0, PLAN, servers)
                for _, _, rate in figures(Measure.END_TO_END, measured):
                    best[name] = max(best[name], rate)
    finally:
        servers.close()
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--least", type=float, default=LEAST_RATIO, metavar="RATIO")
    least: float = parser.parse_args().least
    limit = LIMITS["postgres"]
    for _ in range(TRIES):
        try:
            best = best_rates((OUTRIDER, limit))
        except Failed as error:
            print(f"the speed guard could not measure: {error}")
            return 1
        ratio = best[OUTRIDER] / best[limit]
        print(
            f"speed guard: {best[OUTRIDER]:,.0f} messages a second are {ratio:.2f} of what "
            f"hand-written SQL does with the same rows ({best[limit]:,.0f}); at least {least} is "
            "asked"
        )
        if ratio >= least:
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
