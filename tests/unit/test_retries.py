"""Retry or dead: a value in, a value out."""

import pytest

from runs.executors.base import Outcome
from runs.retries import Backoff, Dead, RetryIn, decide

EXIT_3 = Outcome("failed", reason="exit_code", exit_code=3)
STATUS_503 = Outcome("failed", reason="http_status", http_status=503)
TIMEOUT = Outcome("timeout", reason="timeout", exit_code=143)
RAISED = Outcome("failed", reason="exception")
NO_ANSWER = Outcome("failed", reason="connection")
PLAIN = Backoff(base_sec=10, factor=2, max_sec=3600, jitter=0)


@pytest.mark.parametrize(("attempt", "sec"), [(1, 10), (2, 20), (3, 40)])
def test_the_wait_grows(attempt: int, sec: float) -> None:
    assert decide(EXIT_3, attempt, 4, PLAIN, "all", 0.5) == RetryIn(sec)


def test_attempts_are_limited() -> None:
    assert decide(EXIT_3, 4, 4, PLAIN, "all", 0.5) == Dead()
    assert decide(EXIT_3, 1, 1, PLAIN, "all", 0.5) == Dead()


def test_the_definition_s_back_off_is_read_and_defaults_fill_in() -> None:
    assert Backoff.of({"backoff": {"baseSec": 1, "maxSec": 5}}) == Backoff(1, 2, 5, 0.1)
    assert Backoff.of({}) == Backoff()
    assert Backoff.of({"backoff": None}) == Backoff()


@pytest.mark.parametrize(
    ("outcome", "retry_on", "is_retried"),
    [
        (EXIT_3, None, True),
        (EXIT_3, "all", True),
        (EXIT_3, [3], True),
        (EXIT_3, ["3"], True),
        (EXIT_3, [1, 2], False),
        (EXIT_3, [], False),
        (EXIT_3, ["timeout"], False),
        (TIMEOUT, ["timeout"], True),
        (TIMEOUT, [143], False),
        (STATUS_503, [503], True),
        (STATUS_503, ["5xx"], True),
        (STATUS_503, ["4xx", 429], False),
        (RAISED, ["exception"], True),
        (RAISED, [1], False),
        (NO_ANSWER, ["connection", "5xx"], True),
        (NO_ANSWER, ["5xx"], False),
        (Outcome("failed", exit_code=1), [True], False),
    ],
)
def test_retry_on(outcome: Outcome, retry_on: object, is_retried: bool) -> None:
    decision = decide(outcome, 1, 2, PLAIN, retry_on, 0.0)
    assert isinstance(decision, RetryIn) is is_retried


def test_retry_after_lengthens_the_wait_but_never_shortens_it() -> None:
    busy = Outcome("failed", reason="http_status", http_status=429, retry_after_sec=120)
    soon = Outcome("failed", reason="http_status", http_status=429, retry_after_sec=1)
    assert decide(busy, 1, 2, PLAIN, "all", 0.0) == RetryIn(120)
    assert decide(soon, 1, 2, PLAIN, "all", 0.0) == RetryIn(10)
    never = Outcome("failed", http_status=429, retry_after_sec=1e9)
    assert decide(never, 1, 2, PLAIN, "all", 0.0) == RetryIn(86_400)
