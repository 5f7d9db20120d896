"""How far a Python task says it is. A nullable column rewrites no partition; each one gets it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0004_figures"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="progress_done",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="progress_total",
            field=models.BigIntegerField(null=True),
        ),
    ]
