"""A whole simulated year in 40 zones, dispatched, compared with a second opinion and verified.

Hourly and daily jobs over the year, minutely ones three days around each change of the clocks.
Run as `python -m bench.year [zones]`; it prints the counts and the seconds.
"""

import sys
import time
from datetime import timedelta

from bench.harness import servers, show

REACH = timedelta(days=3)


def main(zones: int) -> None:
    """Simulate the first `zones` of the 40 zones."""
    with servers(CHRONO_STATEMENT_TIMEOUT_SEC="600"):
        import pytest

        from tests.integration.ledger import year
        from tests.integration.ledger.simulation import DAY, World

        with pytest.MonkeyPatch.context() as patch:
            world = World(patch, year.YEAR)
            names = year.ZONES[:zones]
            simulated = [one for name in names for one in year.whole_year(world, name)]
            simulated += [one for name in names for one in year.around_changes(world, name, REACH)]
            began = time.perf_counter()
            world.run_until(year.YEAR_END, DAY)
            dispatched = time.perf_counter()
            expected = year.check(simulated)
            checked = time.perf_counter()
            tally, problems = world.verify()
            verified = time.perf_counter()
        assert problems == []
        assert tally.expected == tally.found == expected
        show(
            {
                "zones": zones,
                "jobs": tally.jobs,
                "ticks": expected,
                "missing": tally.missing,
                "duplicate": tally.duplicate,
                "unexplained": tally.unexplained,
                "dispatch_sec": round(dispatched - began, 1),
                "ticks_a_second": round(expected / (dispatched - began)),
                "verify_sec": round(verified - checked, 1),
            }
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
