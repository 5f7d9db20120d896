"""The states of a run and the transitions between them, as data."""

from django.db import models


class RunStatus(models.TextChoices):
    """Where a run stands; DESIGN §4."""

    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class AttemptOutcome(models.TextChoices):
    """How one attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    WORKER_LOST = "worker_lost"
    CRASHED = "crashed"
    DRAINED = "drained"


class Trigger(models.TextChoices):
    """Why a run exists."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    DEPENDENCY = "dependency"
    BACKFILL = "backfill"


class MisfireRule(models.TextChoices):
    """Why ticks have no run of their own."""

    COALESCED = "coalesced"
    SKIPPED = "skipped"
    CAPPED = "capped"
    PAUSED = "paused"
    EXCLUDED = "excluded"
    DST_GAP = "dst_gap"


TERMINAL = frozenset({RunStatus.SUCCEEDED, RunStatus.DEAD, RunStatus.SKIPPED, RunStatus.CANCELLED})
ACTIVE = frozenset({RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.RETRYING})
LIVE = ACTIVE | {RunStatus.WAITING}

# Every status change there is; runs/lifecycle.py holds the statement of each.
TRANSITIONS: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.WAITING: frozenset({RunStatus.QUEUED, RunStatus.SKIPPED, RunStatus.CANCELLED}),
    RunStatus.QUEUED: frozenset({RunStatus.RUNNING, RunStatus.CANCELLED}),
    RunStatus.RUNNING: frozenset(
        {
            RunStatus.SUCCEEDED,
            RunStatus.RETRYING,
            RunStatus.DEAD,
            RunStatus.CANCELLED,
            RunStatus.QUEUED,
        }
    ),
    RunStatus.RETRYING: frozenset({RunStatus.QUEUED, RunStatus.CANCELLED}),
    # An audited re-run, or the revival of what a re-run upstream had skipped.
    RunStatus.SUCCEEDED: frozenset({RunStatus.QUEUED, RunStatus.WAITING}),
    RunStatus.DEAD: frozenset({RunStatus.QUEUED, RunStatus.WAITING}),
    RunStatus.SKIPPED: frozenset({RunStatus.QUEUED, RunStatus.WAITING}),
    RunStatus.CANCELLED: frozenset({RunStatus.QUEUED, RunStatus.WAITING}),
}
