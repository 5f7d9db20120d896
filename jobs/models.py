"""What runs and when: teams, their tokens, jobs and the versions of jobs. Writes: services.py."""

import uuid
import zlib

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from jobs.choices import (
    Change,
    ConcurrencyPolicy,
    DstPolicy,
    JobKind,
    MisfirePolicy,
    Priority,
    TokenRole,
    TriggerRule,
)

BUCKETS = 1024


def bucket_of(job_id: uuid.UUID) -> int:
    """Return the job's hash bucket, for ever the same (PROTOCOL 6)."""
    return zlib.crc32(job_id.bytes) % BUCKETS


class Team(models.Model):
    """The owner of jobs, runs and tokens; it sees only its own."""

    team_id = models.BigAutoField(primary_key=True)
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "teams"
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug


class ApiToken(models.Model):
    """A bearer token of a team; only its SHA-256 is kept."""

    token_id = models.BigAutoField(primary_key=True)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=200)
    prefix = models.CharField(max_length=16)
    token_hash = models.CharField(max_length=64, unique=True)
    role = models.CharField(max_length=16, choices=TokenRole, default=TokenRole.EDITOR)
    created_at = models.DateTimeField(db_default=Now())
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "api_tokens"

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class Job(models.Model):
    """A definition: what to run, when, and under which limits."""

    job_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        Team, on_delete=models.PROTECT, db_column="owner", related_name="jobs"
    )
    name = models.CharField(max_length=200)
    description = models.TextField(default="", blank=True)
    tags = ArrayField(models.CharField(max_length=64), default=list, blank=True)

    # when: a cron expression, one instant, an interval, or none of them
    schedule = models.CharField(max_length=1000, null=True, blank=True)  # noqa: DJ001 - null: no cron
    run_at = models.DateTimeField(null=True, blank=True)
    every_sec = models.PositiveIntegerField(null=True, blank=True)
    anchor = models.DateTimeField(null=True, blank=True)
    timezone = models.CharField(max_length=64, default="UTC")
    dst_policy = models.CharField(max_length=8, choices=DstPolicy, default=DstPolicy.VIXIE)
    starts_at = models.DateTimeField(null=True, blank=True)
    ends_at = models.DateTimeField(null=True, blank=True)

    # what
    kind = models.CharField(max_length=8, choices=JobKind)
    payload = models.JSONField()
    env = models.JSONField(default=dict, blank=True)

    # limits and policies
    timeout_sec = models.PositiveIntegerField(default=3600)
    kill_grace_sec = models.PositiveIntegerField(default=10)
    max_retries = models.PositiveIntegerField(default=0)
    backoff_base_sec = models.FloatField(default=10)
    backoff_factor = models.FloatField(default=2)
    backoff_max_sec = models.FloatField(default=3600)
    backoff_jitter = models.FloatField(default=0.1)
    retry_on = models.JSONField(null=True, blank=True)
    max_concurrency = models.PositiveIntegerField(null=True, blank=True)
    concurrency_policy = models.CharField(
        max_length=16, choices=ConcurrencyPolicy, default=ConcurrencyPolicy.QUEUE
    )
    concurrency_key = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001 - null: none
    misfire_policy = models.CharField(
        max_length=16, choices=MisfirePolicy, default=MisfirePolicy.RUN_ONCE
    )
    misfire_grace_sec = models.PositiveIntegerField(default=60)
    max_catchup = models.PositiveIntegerField(default=100)
    trigger_rule = models.CharField(
        max_length=16, choices=TriggerRule, default=TriggerRule.ALL_SUCCESS
    )
    dependency_timeout_sec = models.PositiveIntegerField(default=86_400)
    priority = models.CharField(max_length=8, choices=Priority, default=Priority.NORMAL)
    pool = models.CharField(max_length=63, default="default")
    sla_sec = models.PositiveIntegerField(null=True, blank=True)

    # state
    enabled = models.BooleanField(default=True)
    pause_reason = models.CharField(max_length=500, default="", blank=True)
    has_upstreams = models.BooleanField(default=False, editable=False)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "jobs"
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "name"],
                condition=Q(deleted_at__isnull=True),
                name="jobs_name_once_per_owner",
            ),
        ]
        indexes = [
            models.Index(F("owner"), F("created_at").desc(), F("job_id"), name="jobs_by_owner"),
        ]

    def __str__(self) -> str:
        return self.name


class JobNext(models.Model):
    """A job's due state, apart from its wide row: each tick writes it. Every job has one.

    Whoever writes it holds the lock of the jobs row, the dispatcher a shared one; a quarantine
    alone, which decides nothing, does not.
    """

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="next")
    # null: disabled, deleted, or without a further tick
    next_run_at = models.DateTimeField(null=True, blank=True)
    bucket = models.SmallIntegerField(editable=False)
    retry_at = models.DateTimeField(null=True, blank=True)
    quarantine_reason = models.TextField(default="", blank=True)

    class Meta:
        db_table = "job_next"
        indexes = [
            models.Index(
                fields=["next_run_at", "job"],
                condition=Q(next_run_at__isnull=False),
                name="job_next_due",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} at {self.next_run_at}"

    def save(self, *args: object, **kwargs: object) -> None:
        """Fix the bucket, which follows from the id alone."""
        self.bucket = bucket_of(self.job_id)
        super().save(*args, **kwargs)  # type: ignore[arg-type]


class JobVersion(models.Model):
    """A definition as it was in force in [valid_from, valid_to): the audit trail of a job."""

    job_version_id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="versions")
    version = models.PositiveIntegerField()
    definition = models.JSONField()
    change = models.CharField(max_length=8, choices=Change)
    changed_by = models.CharField(max_length=200)
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True, blank=True)
    tzdata_version = models.CharField(max_length=16)

    class Meta:
        db_table = "job_versions"
        constraints = [
            models.UniqueConstraint(fields=["job", "version"], name="job_versions_once"),
        ]
        indexes = [
            models.Index(
                fields=["tzdata_version"],
                condition=Q(valid_to__isnull=True) & ~Q(change="delete"),
                name="job_versions_by_tzdata",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} v{self.version}"


class Pause(models.Model):
    """A pause of a team (owner set) or of everything (owner null); its jobs keep advancing."""

    pause_id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey(
        Team, on_delete=models.CASCADE, null=True, blank=True, db_column="owner"
    )
    reason = models.CharField(max_length=500, default="", blank=True)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "pauses"

    def __str__(self) -> str:
        return f"pause of {self.owner or 'everything'}"


class IdempotencyKey(models.Model):
    """The first answer to a request that carried an Idempotency-Key; null while in progress."""

    idempotency_key_id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey(Team, on_delete=models.CASCADE, db_column="owner")
    key = models.CharField(max_length=255)
    request_hash = models.CharField(max_length=64)
    status_code = models.SmallIntegerField(null=True)
    response = models.JSONField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "idempotency_keys"
        constraints = [
            models.UniqueConstraint(fields=["owner", "key"], name="idempotency_keys_once"),
        ]
        indexes = [models.Index(fields=["created_at"], name="idempotency_keys_age")]

    def __str__(self) -> str:
        return self.key


class AuditEntry(models.Model):
    """Who did what to what, for acts that are no change of a definition."""

    audit_id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    owner = models.ForeignKey(
        Team, on_delete=models.SET_NULL, null=True, blank=True, db_column="owner"
    )
    actor = models.CharField(max_length=200)
    action = models.CharField(max_length=64)
    object_type = models.CharField(max_length=32)
    object_id = models.CharField(max_length=64)
    detail = models.JSONField(default=dict)

    class Meta:
        db_table = "audit"
        verbose_name_plural = "audit"
        indexes = [
            models.Index(F("object_type"), F("object_id"), F("at").desc(), name="audit_of_object")
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.object_type} {self.object_id}"
