"""What follows what: edges between jobs, and what a waiting run waits for."""

import uuid

from django.db import models

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
    """An edge as a waiting run was born with it (PROTOCOL 22)."""

    run_dep_id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    run_id = models.UUIDField()
    scheduled_for = models.DateTimeField()
    depends_on_job = models.ForeignKey(
        Job, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
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
                fields=["depends_on_job", "span_from", "span_until"], name="run_deps_by_upstream"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} waits for {self.depends_on_job_id}"
