"""What follows what: edges between jobs, and what a waiting run waits for."""

from django.contrib.postgres.indexes import BrinIndex
from django.db import models

from jobs.choices import TriggerRule
from jobs.models import Job


class EdgeMatch(models.TextChoices):
    """Which of the upstream's ticks an edge looks at; DESIGN §6."""

    TICK = "tick"
    DAY = "day"


class Dep(models.Model):
    """An edge: `job` runs after `depends_on_job`."""

    dep_id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="upstream_edges")
    depends_on_job = models.ForeignKey(
        Job, on_delete=models.CASCADE, related_name="downstream_edges"
    )
    match = models.CharField(max_length=8, choices=EdgeMatch, default=EdgeMatch.TICK)
    day_offset = models.SmallIntegerField(default=0)

    class Meta:
        db_table = "deps"
        constraints = [
            models.UniqueConstraint(fields=["job", "depends_on_job"], name="deps_once"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} after {self.depends_on_job_id}"


class RunDep(models.Model):
    """An edge as a waiting run was born with it (PROTOCOL 22); it never changes.

    A tick edge names one logical date of the upstream: span_from = span_until. A day edge spans
    [span_from, span_until). `expected` is the number of ticks the upstream's schedule has there,
    null where it has none of its own; 0 for a tick edge says that there is no such tick.
    """

    run_dep_id = models.BigAutoField(primary_key=True)
    run_id = models.UUIDField()
    scheduled_for = models.DateTimeField()
    job = models.ForeignKey(
        Job, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    logical_date = models.DateTimeField()
    trigger_rule = models.CharField(max_length=16, choices=TriggerRule)
    depends_on_job = models.ForeignKey(
        Job, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    match = models.CharField(max_length=8, choices=EdgeMatch)
    span_from = models.DateTimeField()
    span_until = models.DateTimeField()
    expected = models.IntegerField(null=True)

    class Meta:
        db_table = "run_deps"
        constraints = [
            models.UniqueConstraint(fields=["run_id", "depends_on_job"], name="run_deps_once"),
        ]
        indexes = [
            models.Index(
                fields=["depends_on_job", "match", "span_from"], name="run_deps_by_upstream"
            ),
            BrinIndex(fields=["scheduled_for"], name="run_deps_age"),  # for retention
        ]

    def __str__(self) -> str:
        return f"{self.run_id} waits for {self.depends_on_job_id}"
