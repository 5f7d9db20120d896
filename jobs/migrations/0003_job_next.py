"""The due state moves into a narrow table of its own, with its data, and back (ADR 9)."""

import django.db.models.deletion
from django.db import migrations, models

ROOM_FOR_NEW_ROWS = "ALTER TABLE job_next SET (fillfactor = 70)"
COPY = """
INSERT INTO job_next (job_id, next_run_at, bucket, retry_at, quarantine_reason)
SELECT job_id, CASE WHEN enabled AND deleted_at IS NULL THEN next_run_at END, bucket, retry_at,
       quarantine_reason
FROM jobs
"""
COPY_BACK = """
UPDATE jobs j SET next_run_at = n.next_run_at, bucket = n.bucket, retry_at = n.retry_at,
                  quarantine_reason = n.quarantine_reason
FROM job_next n WHERE n.job_id = j.job_id
"""


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0002_tzdata_of_versions"),
    ]

    operations = [
        migrations.CreateModel(
            name="JobNext",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="next",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("next_run_at", models.DateTimeField(blank=True, null=True)),
                ("bucket", models.SmallIntegerField(editable=False)),
                ("retry_at", models.DateTimeField(blank=True, null=True)),
                ("quarantine_reason", models.TextField(blank=True, default="")),
            ],
            options={
                "db_table": "job_next",
            },
        ),
        migrations.RunSQL(ROOM_FOR_NEW_ROWS, migrations.RunSQL.noop),
        migrations.AlterField(  # so that the way back can add the column before it has values
            model_name="job",
            name="bucket",
            field=models.SmallIntegerField(editable=False, null=True),
        ),
        migrations.RunSQL(COPY, COPY_BACK),
        migrations.AddIndex(
            model_name="jobnext",
            index=models.Index(
                condition=models.Q(("next_run_at__isnull", False)),
                fields=["next_run_at", "job"],
                name="job_next_due",
            ),
        ),
        migrations.RemoveIndex(
            model_name="job",
            name="jobs_due",
        ),
        migrations.RemoveField(
            model_name="job",
            name="next_run_at",
        ),
        migrations.RemoveField(
            model_name="job",
            name="bucket",
        ),
        migrations.RemoveField(
            model_name="job",
            name="retry_at",
        ),
        migrations.RemoveField(
            model_name="job",
            name="quarantine_reason",
        ),
    ]
