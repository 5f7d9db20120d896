"""Figures that dispatch keeps on itself."""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0003_ledger")]

    operations = [
        migrations.CreateModel(
            name="Figure",
            fields=[
                ("figure_id", models.BigAutoField(primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=16)),
                ("name", models.CharField(max_length=200)),
                ("figures", models.JSONField()),
                (
                    "written_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
            options={
                "db_table": "figures",
                "constraints": [
                    models.UniqueConstraint(fields=("kind", "name"), name="figures_once")
                ],
            },
        ),
    ]
