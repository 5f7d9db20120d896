"""Whether a failed attempt is followed by another, and when. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.backoff import delay_sec
from runs.executors.base import Outcome

RETRY_ON_ALL = "all"
# What retryOn may name besides exit codes and HTTP statuses.
RETRY_ON_WORDS = frozenset({"timeout", "exception", "connection"})
MAX_RETRY_AFTER_SEC = 86_400.0


@dataclass(frozen=True, slots=True)
class RetryIn:
    """Another attempt follows after this many seconds."""

    sec: float


@dataclass(frozen=True, slots=True)
class Dead:
    """No attempt follows."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a job waits between attempts."""

    base_sec: float = 10.0
    factor: float = 2.0
    max_sec: float = 3600.0
    jitter: float = 0.1

    @classmethod
    def of(cls, definition: Mapping[str, Any]) -> "Backoff":
        """Return the back-off of a definition, in the API's names."""
        given = definition.get("backoff") or {}
        names = {
            "base_sec": "baseSec",
            "factor": "factor",
            "max_sec": "maxSec",
            "jitter": "jitter",
        }
        return cls(**{own: float(given[name]) for own, name in names.items() if name in given})


def decide(
    outcome: Outcome,
    attempt: int,
    attempt_limit: int,
    backoff: Backoff,
    retry_on: object,
    rand: float,
) -> RetryIn | Dead:
    """Return what follows a failed or timed-out attempt; `rand` in [0, 1) spreads the retries."""
    if attempt >= attempt_limit or not is_retried(outcome, retry_on):
        return Dead()
    delay = delay_sec(
        attempt,
        base_sec=backoff.base_sec,
        factor=backoff.factor,
        max_sec=backoff.max_sec,
        jitter=backoff.jitter,
        rand=rand,
    )
    asked = min(outcome.retry_after_sec or 0.0, MAX_RETRY_AFTER_SEC)
    return RetryIn(max(delay, asked))


def is_retried(outcome: Outcome, retry_on: object) -> bool:
    """Say whether retryOn covers an outcome: "all", or a list of codes, statuses and words."""
    if retry_on is None or retry_on == RETRY_ON_ALL:
        return True
    items: Sequence[object] = retry_on if isinstance(retry_on, list) else [retry_on]
    return any(_covers(item, outcome) for item in items)


def _covers(item: object, outcome: Outcome) -> bool:
    if item == RETRY_ON_ALL:
        return True
    if outcome.result == "timeout" or outcome.reason in RETRY_ON_WORDS:
        return item == ("timeout" if outcome.result == "timeout" else outcome.reason)
    code = outcome.http_status if outcome.http_status is not None else outcome.exit_code
    if code is None or isinstance(item, bool):
        return False
    text = str(item).lower()
    if text.endswith("xx"):
        return text == f"{code // 100}xx"
    return text == str(code)
