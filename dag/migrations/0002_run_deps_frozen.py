"""run_deps carries all that is frozen at a run's birth, and is found by upstream and match."""

import django.contrib.postgres.indexes
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dag", "0001_initial"),
        ("jobs", "0001_initial"),
    ]

    operations = [
        # A new key and new columns without a default: the table is made anew. It held nothing yet.
        migrations.DeleteModel(name="RunDep"),
        migrations.CreateModel(
            name="RunDep",
            fields=[
                ("run_dep_id", models.BigAutoField(primary_key=True, serialize=False)),
                ("run_id", models.UUIDField()),
                ("scheduled_for", models.DateTimeField()),
                ("logical_date", models.DateTimeField()),
                (
                    "trigger_rule",
                    models.CharField(
                        choices=[
                            ("all_success", "All Success"),
                            ("all_done", "All Done"),
                            ("one_success", "One Success"),
                            ("one_failed", "One Failed"),
                            ("none_failed", "None Failed"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "match",
                    models.CharField(choices=[("tick", "Tick"), ("day", "Day")], max_length=8),
                ),
                ("span_from", models.DateTimeField()),
                ("span_until", models.DateTimeField()),
                ("expected", models.IntegerField(null=True)),
                (
                    "depends_on_job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "db_table": "run_deps",
                "indexes": [
                    models.Index(
                        fields=["depends_on_job", "match", "span_from"],
                        name="run_deps_by_upstream",
                    ),
                    django.contrib.postgres.indexes.BrinIndex(
                        fields=["scheduled_for"], name="run_deps_age"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("run_id", "depends_on_job"), name="run_deps_once"
                    )
                ],
            },
        ),
    ]
