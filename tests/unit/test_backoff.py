"""How long a failed attempt waits."""

import pytest

from jobs.backoff import delay_sec


def delay(attempt: int, rand: float = 0.0, **given: float) -> float:
    knobs = {"base_sec": 10.0, "factor": 2.0, "max_sec": 3600.0, "jitter": 0.1} | given
    return delay_sec(attempt, rand=rand, **knobs)


def test_it_doubles_from_the_base() -> None:
    assert [delay(attempt) for attempt in (1, 2, 3, 4)] == [10, 20, 40, 80]


def test_a_factor_of_one_stays_at_the_base() -> None:
    assert [delay(attempt, factor=1) for attempt in (1, 9, 100)] == [10, 10, 10]


def test_jitter_lengthens_by_at_most_its_share() -> None:
    assert delay(1, 0.0) == 10
    assert delay(1, 0.5) == 10.5
    assert 10.99 < delay(1, 0.999) < 11


def test_no_jitter_is_exact() -> None:
    assert delay(3, 0.7, jitter=0) == 40


def test_it_never_exceeds_the_cap_and_still_spreads() -> None:
    waits = [delay(20, rand / 10) for rand in range(10)]
    assert max(waits) < 3600
    assert min(waits) == pytest.approx(3600 / 1.1)
    assert len(set(waits)) == 10


def test_just_below_the_cap_the_jitter_is_cut() -> None:
    assert delay(1, 0.99, max_sec=10.5) < 10.5
    assert delay(1, 0.0, max_sec=10) == pytest.approx(10 / 1.1)


@pytest.mark.parametrize("attempt", [1_000, 10_000, 2**31])
def test_a_huge_attempt_number_waits_the_cap(attempt: int) -> None:
    assert delay(attempt, jitter=0) == 3600
    assert delay(attempt, jitter=0, factor=10, base_sec=1) == 3600


def test_no_base_is_no_wait() -> None:
    assert delay(5, 0.9, base_sec=0) == 0


@pytest.mark.parametrize("attempt", [0, -1])
def test_attempts_are_counted_from_one(attempt: int) -> None:
    with pytest.raises(ValueError, match="the first one is 1"):
        delay(attempt)
