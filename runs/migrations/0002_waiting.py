"""Small indexes for dag: what waits, what was skipped, and runs that stand for a tick."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0001_initial"),
        ("runs", "0001_initial"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("reason", "dependency"), ("status", "waiting")),
                fields=["scheduled_for", "run_id"],
                name="runs_waiting",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("reason", "upstream_failed"), ("status", "skipped")),
                fields=["scheduled_for", "run_id"],
                name="runs_upstream_failed",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("logical_date", models.F("scheduled_for")), _negated=True),
                fields=["job", "logical_date"],
                name="runs_named_date",
            ),
        ),
    ]
