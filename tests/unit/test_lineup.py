"""What stands in line is taken once: by who works it off, or by who gives it back."""

import threading
from collections.abc import Sequence

import pytest

from runs.lineup import Lineup


def test_items_are_taken_in_order_while_none_takes_long() -> None:
    given: list[int] = []
    line = Lineup(given.extend, patience_sec=60)
    line.put([1, 2, 3])
    assert [line.take(), line.take(), line.take(), line.take()] == [1, 2, 3, None]
    assert given == []


def test_what_stands_behind_a_long_one_is_given_back() -> None:
    given: list[int] = []
    was_given = threading.Event()

    def give(items: Sequence[int]) -> None:
        given.extend(items)
        was_given.set()

    line = Lineup(give, patience_sec=0.01)
    for first in (1, 11):  # the thread serves one message after another
        line.put(range(first, first + 4))
        assert line.take() == first
        assert was_given.wait(30)
        assert line.take() is None
        was_given.clear()
    assert given == [2, 3, 4, 12, 13, 14]


def test_that_an_item_takes_long_is_told_once_whatever_stands_behind_it() -> None:
    told: list[list[int]] = []
    was_told = threading.Event()

    def tell(items: list[int]) -> None:
        told.append(items)
        was_told.set()

    line = Lineup(tell, patience_sec=0.01)
    line.put([1, 2])
    line.take()
    line.take()  # the last of several: those before it may wait to be recorded
    assert was_told.wait(30)
    was_told.clear()
    assert not was_told.wait(0.1)
    line.put([3])
    line.take()  # nothing waits for a lone one
    assert not was_told.wait(0.1)
    assert told == [[]]


def test_a_line_ends_only_once_the_rest_has_been_given_back() -> None:
    began, may_end = threading.Event(), threading.Event()
    told: list[str] = []

    def give(items: Sequence[int]) -> None:
        began.set()
        may_end.wait(30)
        told.append("given back")

    line = Lineup(give, patience_sec=0.01)
    line.put([1, 2])
    line.take()
    assert began.wait(30)
    threading.Timer(0.05, may_end.set).start()
    assert line.take() is None
    assert told == ["given back"]


def test_a_failure_to_give_back_is_told_and_does_not_end_the_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given: list[int] = []
    failures = [OSError("gone")]

    def give(items: Sequence[int]) -> None:
        if failures:
            raise failures.pop()
        given.extend(items)

    line = Lineup(give, patience_sec=0.01)
    for first in (1, 11):
        line.put([first, first + 1])
        line.take()
        while line._items:
            threading.Event().wait(0.01)
        assert line.take() is None
    assert given == [12]
    assert "1 runs could not be given back" in caplog.text
