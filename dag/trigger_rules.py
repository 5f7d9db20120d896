"""Pure: a trigger rule and the upstreams' outcomes → release the run, skip it, or wait."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from jobs.choices import TriggerRule
from runs.states import RunStatus

UPSTREAM_FAILED, NO_UPSTREAM_TICK = "upstream_failed", "no_upstream_tick"
RULE_NOT_MET = "rule_not_met"


class Outcome(Enum):
    """What one upstream tick has come to, in the eyes of a rule."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"  # dead, or stopped by a person: what it should have made is not there
    SKIPPED = "skipped"
    PENDING = "pending"
    ABSENT = "absent"  # the upstream has no such tick at all


OUTCOMES: dict[str, Outcome] = {
    RunStatus.SUCCEEDED: Outcome.SUCCEEDED,
    RunStatus.DEAD: Outcome.FAILED,
    RunStatus.CANCELLED: Outcome.FAILED,
    RunStatus.SKIPPED: Outcome.SKIPPED,
    RunStatus.WAITING: Outcome.PENDING,
    RunStatus.QUEUED: Outcome.PENDING,
    RunStatus.RUNNING: Outcome.PENDING,
    RunStatus.RETRYING: Outcome.PENDING,
}


class Action(Enum):
    """What becomes of a waiting run."""

    WAIT = "wait"
    RELEASE = "release"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class RuleDecision:
    """What to do, and why where the run is skipped."""

    action: Action
    reason: str = ""


WAIT, RELEASE = RuleDecision(Action.WAIT), RuleDecision(Action.RELEASE)


@dataclass(frozen=True, slots=True)
class Tally:
    """How many upstream ticks came to what."""

    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    pending: int = 0
    absent: int = 0

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> "Tally":
        """Count outcomes."""
        return cls(**{outcome.value: count for outcome, count in Counter(outcomes).items()})

    @property
    def has_no_tick(self) -> bool:
        """Say whether there are upstreams but not one tick among them."""
        return bool(self.absent) and not (
            self.succeeded or self.failed or self.skipped or self.pending
        )


def decide(rule: str, tally: Tally) -> RuleDecision:
    """Decide on a waiting run. A decision falls as soon as no further outcome can change it.

    A run without upstreams is released; an absent tick counts as a skipped one.
    """
    if tally.has_no_tick:
        return RuleDecision(Action.SKIP, NO_UPSTREAM_TICK)
    if _is_met_early(rule, tally):
        return RELEASE
    if reason := _failed_early(rule, tally):
        return RuleDecision(Action.SKIP, reason)
    if tally.pending:
        return WAIT
    return _at_the_end(rule, tally)


def _is_met_early(rule: str, tally: Tally) -> bool:
    return bool(
        (rule == TriggerRule.ONE_SUCCESS and tally.succeeded)
        or (rule == TriggerRule.ONE_FAILED and tally.failed)
    )


def _failed_early(rule: str, tally: Tally) -> str:
    if rule == TriggerRule.ALL_SUCCESS:
        if tally.failed or tally.skipped:
            return UPSTREAM_FAILED
        return NO_UPSTREAM_TICK if tally.absent else ""
    if rule == TriggerRule.NONE_FAILED and tally.failed:
        return UPSTREAM_FAILED
    return ""


def _at_the_end(rule: str, tally: Tally) -> RuleDecision:
    """Decide once every outcome is in; the early ones are behind us."""
    is_empty = tally == Tally()
    if rule == TriggerRule.ONE_SUCCESS and not is_empty:
        return RuleDecision(Action.SKIP, UPSTREAM_FAILED)
    if rule == TriggerRule.ONE_FAILED and not is_empty:
        return RuleDecision(Action.SKIP, RULE_NOT_MET)
    return RELEASE
