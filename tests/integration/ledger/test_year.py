"""A simulated year: complete, without a duplicate. bench/year.py simulates all of it."""

from datetime import timedelta

import pytest

from tests.integration.ledger.simulation import DAY, World
from tests.integration.ledger.year import YEAR, YEAR_END, ZONES, around_changes, check, whole_year

pytestmark = pytest.mark.django_db(transaction=True)

WHOLE = ("Europe/Berlin",)
REACH = timedelta(hours=1)


@pytest.mark.timeout(600)
def test_a_year_of_ticks_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(set(ZONES)) == 40
    world = World(monkeypatch, YEAR)
    simulated = [one for name in WHOLE for one in whole_year(world, name)]
    simulated += [one for name in ZONES[::3] for one in around_changes(world, name, REACH)]
    world.run_until(YEAR_END, 3 * DAY)
    expected = check(simulated)
    assert {len(one.gaps) for one in simulated} == {0, 1}
    tally, problems = world.verify()
    assert problems == []
    assert (tally.expected, tally.found, tally.due) == (expected, expected, 0)
    assert expected > 10_000
    assert sum(world.fates(simulated[2].job).values()) == 365
