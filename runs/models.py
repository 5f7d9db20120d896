"""What happened: runs, attempts, misfires, leases, workers, alerts. Status: lifecycle.py alone.

`runs` and `run_attempts` are partitioned by day; migration 0001 creates them in SQL.
"""

import uuid
from datetime import datetime, timedelta
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from jobs.choices import Priority
from jobs.models import Job, Team
from runs.ids import day_of, millisecond_of
from runs.states import AttemptOutcome, MisfireRule, RunStatus, Trigger


class RunQuerySet(models.QuerySet["Run"]):
    """Look-ups that prune to one partition."""

    def by_id(self, run_id: uuid.UUID) -> "RunQuerySet":
        """Narrow to the run; the time inside the id cuts the partition first (HOUSE)."""
        instant = millisecond_of(run_id)
        return self.filter(
            run_id=run_id,
            scheduled_for__gte=instant,
            scheduled_for__lt=instant + timedelta(milliseconds=1),
        )

    def of_day(self, instant: datetime) -> "RunQuerySet":
        """Narrow to the UTC day of `instant`, one partition."""
        start = day_of(instant)
        return self.filter(scheduled_for__gte=start, scheduled_for__lt=start + timedelta(days=1))


class Run(models.Model):
    """A tick's record, or a triggered run's; the row carries the current attempt."""

    run_id = models.UUIDField(primary_key=True)
    job = models.ForeignKey(
        Job, on_delete=models.DO_NOTHING, db_constraint=False, related_name="runs", db_index=False
    )
    owner = models.ForeignKey(
        Team,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_column="owner",
        related_name="runs",
        db_index=False,
    )
    scheduled_for = models.DateTimeField()
    logical_date = models.DateTimeField()
    trigger = models.CharField(max_length=16, choices=Trigger)
    job_version = models.PositiveIntegerField()
    status = models.CharField(max_length=16, choices=RunStatus)
    reason = models.CharField(max_length=32, default="", blank=True)
    pool = models.CharField(max_length=63)
    priority = models.CharField(max_length=8, choices=Priority)
    attempt = models.PositiveIntegerField(default=0)
    attempt_limit = models.PositiveIntegerField()
    lost_count = models.PositiveSmallIntegerField(default=0)
    limit_key = models.CharField(max_length=264, null=True)  # noqa: DJ001 - null: no limit
    worker_id = models.CharField(max_length=200, default="", blank=True)
    claim_id = models.UUIDField(null=True)
    created_at = models.DateTimeField()
    published_at = models.DateTimeField(null=True)
    available_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    exit_code = models.IntegerField(null=True)
    error = models.TextField(default="", blank=True)
    output_ref = models.CharField(max_length=300, default="", blank=True)
    output = models.JSONField(null=True)
    progress_done = models.BigIntegerField(null=True)
    progress_total = models.BigIntegerField(null=True)
    payload = models.JSONField(null=True)

    objects: ClassVar[models.Manager["Run"]] = RunQuerySet.as_manager()

    class Meta:
        db_table = "runs"
        constraints = [
            models.UniqueConstraint(fields=["job", "scheduled_for"], name="runs_tick_once"),
        ]
        indexes = [
            models.Index(F("owner"), F("scheduled_for").desc(), F("run_id"), name="runs_by_owner"),
            models.Index(
                fields=["job", "scheduled_for"],
                condition=Q(status__in=["waiting", "queued", "running", "retrying"]),
                name="runs_live",
            ),
            models.Index(
                fields=["pool", "priority", "published_at"],
                condition=Q(status="queued"),
                name="runs_queued",
            ),
            models.Index(fields=["worker_id"], condition=Q(status="running"), name="runs_running"),
            models.Index(
                fields=["available_at"], condition=Q(status="retrying"), name="runs_retrying"
            ),
            models.Index(
                fields=["job", "scheduled_for"],
                condition=Q(status__in=["dead", "skipped", "cancelled"]),
                name="runs_not_well",
            ),
            models.Index(
                fields=["limit_key", "scheduled_for"],
                condition=Q(
                    status__in=["waiting", "queued", "running", "retrying"],
                    limit_key__isnull=False,
                ),
                name="runs_by_limit",
            ),
            # Few rows each: what waits for upstreams, what these had skipped, and triggered runs
            # that stand for a tick.
            models.Index(
                fields=["scheduled_for", "run_id"],
                condition=Q(status="waiting", reason="dependency"),
                name="runs_waiting",
            ),
            models.Index(
                fields=["scheduled_for", "run_id"],
                condition=Q(status="skipped", reason="upstream_failed"),
                name="runs_upstream_failed",
            ),
            models.Index(
                fields=["job", "logical_date"],
                condition=~Q(logical_date=F("scheduled_for")),
                name="runs_named_date",
            ),
        ]

    def __str__(self) -> str:
        return str(self.run_id)


class RunAttempt(models.Model):
    """An attempt that ended and was followed by another; the last one stands in the run's row."""

    run_attempt_id = models.UUIDField(primary_key=True, db_column="claim_id")
    run_id = models.UUIDField()
    scheduled_for = models.DateTimeField()
    attempt = models.PositiveIntegerField()
    outcome = models.CharField(max_length=16, choices=AttemptOutcome)
    reason = models.CharField(max_length=32, default="", blank=True)
    exit_code = models.IntegerField(null=True)
    error = models.TextField(default="", blank=True)
    worker_id = models.CharField(max_length=200, default="", blank=True)
    output_ref = models.CharField(max_length=300, default="", blank=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "run_attempts"
        constraints = [
            models.UniqueConstraint(
                fields=["run_id", "attempt", "scheduled_for"], name="run_attempts_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} attempt {self.attempt}"


class Misfire(models.Model):
    """A range of a job's ticks that have no run of their own, and the rule that says why."""

    misfire_id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="misfires", db_index=False)
    owner = models.ForeignKey(Team, on_delete=models.CASCADE, db_column="owner")
    first_tick = models.DateTimeField()
    last_tick = models.DateTimeField()
    tick_count = models.PositiveIntegerField()
    rule = models.CharField(max_length=16, choices=MisfireRule)
    into_scheduled_for = models.DateTimeField(null=True, blank=True)
    job_version = models.PositiveIntegerField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "misfires"
        indexes = [
            models.Index(fields=["job", "first_tick"], name="misfires_of_job"),
            models.Index(fields=["last_tick"], name="misfires_age"),
        ]

    def __str__(self) -> str:
        return f"{self.tick_count} {self.rule}"


class Lease(models.Model):
    """A named right, held until lease_until by the database's clock."""

    name = models.CharField(primary_key=True, max_length=100)
    holder = models.CharField(max_length=200)
    lease_until = models.DateTimeField()
    term = models.BigIntegerField(default=1)

    class Meta:
        db_table = "leases"

    def __str__(self) -> str:
        return self.name


class Figure(models.Model):
    """What a dispatcher or a queue last told of itself; runs/figures.py."""

    figure_id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=16)
    name = models.CharField(max_length=200)
    figures = models.JSONField()
    written_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "figures"
        constraints = [models.UniqueConstraint(fields=["kind", "name"], name="figures_once")]

    def __str__(self) -> str:
        return self.name


class LimitSlot(models.Model):
    """The row whose lock serialises counting against a limit (PROTOCOL 8, 9)."""

    limit_slot_id = models.BigAutoField(primary_key=True)
    scope = models.CharField(max_length=8)
    key = models.CharField(max_length=264)

    class Meta:
        db_table = "limit_slots"
        constraints = [
            models.UniqueConstraint(fields=["scope", "key"], name="limit_slots_once"),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.key}"


class Worker(models.Model):
    """A worker process of one boot."""

    worker_id = models.CharField(primary_key=True, max_length=200)
    name = models.CharField(max_length=100)
    hostname = models.CharField(max_length=200)
    pid = models.PositiveIntegerField()
    pools = ArrayField(models.CharField(max_length=63))
    concurrency = models.PositiveIntegerField()
    version = models.CharField(max_length=32)
    state = models.CharField(max_length=16, default="running")
    running = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField(db_default=Now())
    last_seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "workers"

    def __str__(self) -> str:
        return self.worker_id


class Alert(models.Model):
    """An outbox row: something a person should know. Delivery marks it."""

    alert_id = models.BigAutoField(primary_key=True)
    created_at = models.DateTimeField(db_default=Now())
    kind = models.CharField(max_length=32)
    dedupe_key = models.CharField(max_length=200, unique=True)
    owner = models.ForeignKey(
        Team, on_delete=models.CASCADE, null=True, blank=True, db_column="owner"
    )
    job = models.ForeignKey(Job, on_delete=models.CASCADE, null=True, blank=True)
    run_id = models.UUIDField(null=True, blank=True)
    message = models.TextField()
    detail = models.JSONField(default=dict)
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "alerts"
        indexes = [
            models.Index(F("created_at").desc(), name="alerts_newest"),
            models.Index(
                fields=["alert_id"], condition=Q(delivered_at__isnull=True), name="alerts_owed"
            ),
        ]

    def __str__(self) -> str:
        return self.message


class RunStat(models.Model):
    """Runs of a job that ended in one hour: the roll-up that pages read instead of counting."""

    run_stat_id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, db_index=False)
    owner = models.ForeignKey(Team, on_delete=models.CASCADE, db_column="owner", db_index=False)
    hour = models.DateTimeField()
    succeeded = models.PositiveIntegerField(default=0)
    dead = models.PositiveIntegerField(default=0)
    skipped = models.PositiveIntegerField(default=0)
    cancelled = models.PositiveIntegerField(default=0)
    duration_sum_sec = models.FloatField(default=0)
    duration_max_sec = models.FloatField(default=0)

    class Meta:
        db_table = "run_stats"
        constraints = [models.UniqueConstraint(fields=["job", "hour"], name="run_stats_once")]
        indexes = [models.Index(fields=["owner", "hour"], name="run_stats_by_owner")]

    def __str__(self) -> str:
        return f"{self.job_id} {self.hour:%Y-%m-%d %H}"


class RunFloor(models.Model):
    """One row: no non-terminal run is scheduled before it (PROTOCOL 27)."""

    run_floor_id = models.SmallIntegerField(primary_key=True, default=1)
    floor = models.DateTimeField()

    class Meta:
        db_table = "run_floor"

    def __str__(self) -> str:
        return self.floor.isoformat()


class TickCheck(models.Model):
    """What the nightly verification found of a UTC day; unfinished while it goes on."""

    day = models.DateField(primary_key=True)
    started_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)
    above = models.UUIDField(default=uuid.UUID(int=0))  # jobs up to this id have been verified
    jobs = models.PositiveBigIntegerField(default=0)
    expected = models.PositiveBigIntegerField(default=0)
    found = models.PositiveBigIntegerField(default=0)
    due = models.PositiveBigIntegerField(default=0)
    missing = models.PositiveBigIntegerField(default=0)
    duplicate = models.PositiveBigIntegerField(default=0)
    unexplained = models.PositiveBigIntegerField(default=0)
    percentage = models.FloatField(null=True)

    class Meta:
        db_table = "tick_checks"

    def __str__(self) -> str:
        return f"{self.day}: {self.percentage}"


class Tzdata(models.Model):
    """One row: the newest tzdata that a dispatcher ran with; an older one refuses (PROTOCOL 5)."""

    tzdata_id = models.SmallIntegerField(primary_key=True, default=1)
    version = models.CharField(max_length=16)
    since = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "tzdata"

    def __str__(self) -> str:
        return self.version
