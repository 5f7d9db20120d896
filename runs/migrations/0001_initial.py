"""Runs and what belongs to them; `runs` and `run_attempts` are partitioned by day."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

# Django cannot express a partitioned table: it is made here, the models are state only. Every
# unique index of a partitioned table contains the partition key, hence the composite keys.
PARTITIONED_TABLES = """
CREATE TABLE runs (
    run_id uuid NOT NULL,
    job_id uuid NOT NULL,
    owner bigint NOT NULL,
    scheduled_for timestamptz NOT NULL,
    logical_date timestamptz NOT NULL,
    trigger varchar(16) NOT NULL,
    job_version integer NOT NULL,
    status varchar(16) NOT NULL,
    reason varchar(32) NOT NULL DEFAULT '',
    pool varchar(63) NOT NULL,
    priority varchar(8) NOT NULL,
    attempt integer NOT NULL DEFAULT 0,
    attempt_limit integer NOT NULL,
    lost_count smallint NOT NULL DEFAULT 0,
    limit_key varchar(264),
    worker_id varchar(200) NOT NULL DEFAULT '',
    claim_id uuid,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    published_at timestamptz,
    available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at timestamptz,
    finished_at timestamptz,
    lease_until timestamptz,
    cancel_requested_at timestamptz,
    exit_code integer,
    error text NOT NULL DEFAULT '',
    output_ref varchar(300) NOT NULL DEFAULT '',
    output jsonb,
    payload jsonb,
    PRIMARY KEY (run_id, scheduled_for),
    CONSTRAINT runs_tick_once UNIQUE (job_id, scheduled_for),
    CONSTRAINT runs_status_known CHECK (status IN (
        'waiting', 'queued', 'running', 'retrying', 'succeeded', 'dead', 'skipped', 'cancelled'
    )),
    CONSTRAINT runs_finished_when_terminal CHECK (
        (finished_at IS NOT NULL) = (status IN ('succeeded', 'dead', 'skipped', 'cancelled'))
    ),
    CONSTRAINT runs_leased_when_running CHECK ((lease_until IS NOT NULL) = (status = 'running'))
) PARTITION BY RANGE (scheduled_for);
CREATE INDEX runs_by_owner ON runs (owner, scheduled_for DESC, run_id);
CREATE INDEX runs_live ON runs (job_id, scheduled_for)
    WHERE status IN ('waiting', 'queued', 'running', 'retrying');
CREATE INDEX runs_queued ON runs (pool, priority, published_at) WHERE status = 'queued';
CREATE INDEX runs_running ON runs (worker_id) WHERE status = 'running';
CREATE INDEX runs_retrying ON runs (available_at) WHERE status = 'retrying';
CREATE INDEX runs_not_well ON runs (job_id, scheduled_for)
    WHERE status IN ('dead', 'skipped', 'cancelled');
CREATE INDEX runs_by_limit ON runs (limit_key, scheduled_for)
    WHERE status IN ('waiting', 'queued', 'running', 'retrying') AND limit_key IS NOT NULL;
CREATE TABLE runs_default PARTITION OF runs DEFAULT;

CREATE TABLE run_attempts (
    claim_id uuid NOT NULL,
    run_id uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    attempt integer NOT NULL,
    outcome varchar(16) NOT NULL,
    reason varchar(32) NOT NULL DEFAULT '',
    exit_code integer,
    error text NOT NULL DEFAULT '',
    worker_id varchar(200) NOT NULL DEFAULT '',
    output_ref varchar(300) NOT NULL DEFAULT '',
    started_at timestamptz,
    finished_at timestamptz,
    CONSTRAINT run_attempts_once PRIMARY KEY (run_id, attempt, scheduled_for)
) PARTITION BY RANGE (scheduled_for);
CREATE TABLE run_attempts_default PARTITION OF run_attempts DEFAULT;
"""
DROP_TABLES = "DROP TABLE runs; DROP TABLE run_attempts;"


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("jobs", "0001_initial"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(PARTITIONED_TABLES, DROP_TABLES)],
            state_operations=[
                migrations.CreateModel(
                    name="RunAttempt",
                    fields=[
                        (
                            "run_attempt_id",
                            models.UUIDField(
                                db_column="claim_id", primary_key=True, serialize=False
                            ),
                        ),
                        ("run_id", models.UUIDField()),
                        ("scheduled_for", models.DateTimeField()),
                        ("attempt", models.PositiveIntegerField()),
                        (
                            "outcome",
                            models.CharField(
                                choices=[
                                    ("succeeded", "Succeeded"),
                                    ("failed", "Failed"),
                                    ("timeout", "Timeout"),
                                    ("cancelled", "Cancelled"),
                                    ("worker_lost", "Worker Lost"),
                                    ("crashed", "Crashed"),
                                    ("drained", "Drained"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("reason", models.CharField(blank=True, default="", max_length=32)),
                        ("exit_code", models.IntegerField(null=True)),
                        ("error", models.TextField(blank=True, default="")),
                        ("worker_id", models.CharField(blank=True, default="", max_length=200)),
                        ("output_ref", models.CharField(blank=True, default="", max_length=300)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("finished_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "db_table": "run_attempts",
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run_id", "attempt", "scheduled_for"),
                                name="run_attempts_once",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Run",
                    fields=[
                        ("run_id", models.UUIDField(primary_key=True, serialize=False)),
                        ("scheduled_for", models.DateTimeField()),
                        ("logical_date", models.DateTimeField()),
                        (
                            "trigger",
                            models.CharField(
                                choices=[
                                    ("schedule", "Schedule"),
                                    ("manual", "Manual"),
                                    ("dependency", "Dependency"),
                                    ("backfill", "Backfill"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("job_version", models.PositiveIntegerField()),
                        (
                            "status",
                            models.CharField(
                                choices=[
                                    ("waiting", "Waiting"),
                                    ("queued", "Queued"),
                                    ("running", "Running"),
                                    ("retrying", "Retrying"),
                                    ("succeeded", "Succeeded"),
                                    ("dead", "Dead"),
                                    ("skipped", "Skipped"),
                                    ("cancelled", "Cancelled"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("reason", models.CharField(blank=True, default="", max_length=32)),
                        ("pool", models.CharField(max_length=63)),
                        (
                            "priority",
                            models.CharField(
                                choices=[("high", "High"), ("normal", "Normal"), ("low", "Low")],
                                max_length=8,
                            ),
                        ),
                        ("attempt", models.PositiveIntegerField(default=0)),
                        ("attempt_limit", models.PositiveIntegerField()),
                        ("lost_count", models.PositiveSmallIntegerField(default=0)),
                        ("limit_key", models.CharField(max_length=264, null=True)),
                        ("worker_id", models.CharField(blank=True, default="", max_length=200)),
                        ("claim_id", models.UUIDField(null=True)),
                        ("created_at", models.DateTimeField()),
                        ("published_at", models.DateTimeField(null=True)),
                        ("available_at", models.DateTimeField()),
                        ("started_at", models.DateTimeField(null=True)),
                        ("finished_at", models.DateTimeField(null=True)),
                        ("lease_until", models.DateTimeField(null=True)),
                        ("cancel_requested_at", models.DateTimeField(null=True)),
                        ("exit_code", models.IntegerField(null=True)),
                        ("error", models.TextField(blank=True, default="")),
                        ("output_ref", models.CharField(blank=True, default="", max_length=300)),
                        ("output", models.JSONField(null=True)),
                        ("payload", models.JSONField(null=True)),
                        (
                            "job",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="runs",
                                to="jobs.job",
                            ),
                        ),
                        (
                            "owner",
                            models.ForeignKey(
                                db_column="owner",
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="runs",
                                to="jobs.team",
                            ),
                        ),
                    ],
                    options={
                        "db_table": "runs",
                        "indexes": [
                            models.Index(
                                models.F("owner"),
                                models.OrderBy(models.F("scheduled_for"), descending=True),
                                models.F("run_id"),
                                name="runs_by_owner",
                            ),
                            models.Index(
                                condition=models.Q(
                                    ("status__in", ["waiting", "queued", "running", "retrying"])
                                ),
                                fields=["job", "scheduled_for"],
                                name="runs_live",
                            ),
                            models.Index(
                                condition=models.Q(("status", "queued")),
                                fields=["pool", "priority", "published_at"],
                                name="runs_queued",
                            ),
                            models.Index(
                                condition=models.Q(("status", "running")),
                                fields=["worker_id"],
                                name="runs_running",
                            ),
                            models.Index(
                                condition=models.Q(("status", "retrying")),
                                fields=["available_at"],
                                name="runs_retrying",
                            ),
                            models.Index(
                                condition=models.Q(
                                    ("status__in", ["dead", "skipped", "cancelled"])
                                ),
                                fields=["job", "scheduled_for"],
                                name="runs_not_well",
                            ),
                            models.Index(
                                condition=models.Q(
                                    ("limit_key__isnull", False),
                                    ("status__in", ["waiting", "queued", "running", "retrying"]),
                                ),
                                fields=["limit_key", "scheduled_for"],
                                name="runs_by_limit",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("job", "scheduled_for"), name="runs_tick_once"
                            )
                        ],
                    },
                ),
            ],
        ),
        migrations.CreateModel(
            name="Lease",
            fields=[
                ("name", models.CharField(max_length=100, primary_key=True, serialize=False)),
                ("holder", models.CharField(max_length=200)),
                ("lease_until", models.DateTimeField()),
                ("term", models.BigIntegerField(default=1)),
            ],
            options={
                "db_table": "leases",
            },
        ),
        migrations.CreateModel(
            name="RunFloor",
            fields=[
                (
                    "run_floor_id",
                    models.SmallIntegerField(default=1, primary_key=True, serialize=False),
                ),
                ("floor", models.DateTimeField()),
            ],
            options={
                "db_table": "run_floor",
            },
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("worker_id", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=100)),
                ("hostname", models.CharField(max_length=200)),
                ("pid", models.PositiveIntegerField()),
                (
                    "pools",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=63), size=None
                    ),
                ),
                ("concurrency", models.PositiveIntegerField()),
                ("version", models.CharField(max_length=32)),
                ("state", models.CharField(default="running", max_length=16)),
                ("running", models.PositiveIntegerField(default=0)),
                (
                    "started_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "last_seen_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
            options={
                "db_table": "workers",
            },
        ),
        migrations.CreateModel(
            name="LimitSlot",
            fields=[
                ("limit_slot_id", models.BigAutoField(primary_key=True, serialize=False)),
                ("scope", models.CharField(max_length=8)),
                ("key", models.CharField(max_length=264)),
            ],
            options={
                "db_table": "limit_slots",
                "constraints": [
                    models.UniqueConstraint(fields=("scope", "key"), name="limit_slots_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Alert",
            fields=[
                ("alert_id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("kind", models.CharField(max_length=32)),
                ("dedupe_key", models.CharField(max_length=200, unique=True)),
                ("run_id", models.UUIDField(blank=True, null=True)),
                ("message", models.TextField()),
                ("detail", models.JSONField(default=dict)),
                ("delivered_at", models.DateTimeField(blank=True, null=True)),
                (
                    "job",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="jobs.job",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        blank=True,
                        db_column="owner",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="jobs.team",
                    ),
                ),
            ],
            options={
                "db_table": "alerts",
                "indexes": [
                    models.Index(
                        models.OrderBy(models.F("created_at"), descending=True),
                        name="alerts_newest",
                    ),
                    models.Index(
                        condition=models.Q(("delivered_at__isnull", True)),
                        fields=["alert_id"],
                        name="alerts_owed",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Misfire",
            fields=[
                ("misfire_id", models.BigAutoField(primary_key=True, serialize=False)),
                ("first_tick", models.DateTimeField()),
                ("last_tick", models.DateTimeField()),
                ("tick_count", models.PositiveIntegerField()),
                (
                    "rule",
                    models.CharField(
                        choices=[
                            ("coalesced", "Coalesced"),
                            ("skipped", "Skipped"),
                            ("capped", "Capped"),
                            ("paused", "Paused"),
                            ("excluded", "Excluded"),
                            ("dst_gap", "Dst Gap"),
                        ],
                        max_length=16,
                    ),
                ),
                ("into_scheduled_for", models.DateTimeField(blank=True, null=True)),
                ("job_version", models.PositiveIntegerField()),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="misfires",
                        to="jobs.job",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_column="owner",
                        on_delete=django.db.models.deletion.CASCADE,
                        to="jobs.team",
                    ),
                ),
            ],
            options={
                "db_table": "misfires",
                "indexes": [models.Index(fields=["job", "first_tick"], name="misfires_of_job")],
            },
        ),
        migrations.CreateModel(
            name="RunStat",
            fields=[
                ("run_stat_id", models.BigAutoField(primary_key=True, serialize=False)),
                ("hour", models.DateTimeField()),
                ("succeeded", models.PositiveIntegerField(default=0)),
                ("dead", models.PositiveIntegerField(default=0)),
                ("skipped", models.PositiveIntegerField(default=0)),
                ("cancelled", models.PositiveIntegerField(default=0)),
                ("duration_sum_sec", models.FloatField(default=0)),
                ("duration_max_sec", models.FloatField(default=0)),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, to="jobs.job"
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_column="owner",
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="jobs.team",
                    ),
                ),
            ],
            options={
                "db_table": "run_stats",
                "indexes": [models.Index(fields=["owner", "hour"], name="run_stats_by_owner")],
                "constraints": [
                    models.UniqueConstraint(fields=("job", "hour"), name="run_stats_once")
                ],
            },
        ),
    ]
