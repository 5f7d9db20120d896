"""Migrations that move data: `bin/up` keeps a database from one release to the next."""

from datetime import UTC, datetime, timedelta

import pytest
from django.apps.registry import Apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

pytestmark = pytest.mark.django_db(transaction=True)

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
COLUMNS = ("next_run_at", "bucket", "retry_at", "quarantine_reason")
BEFORE, AFTER = "0002_tzdata_of_versions", "0003_job_next"


def migrate(name: str) -> Apps:
    """Bring the tables of jobs to that migration, and return the models as they were then."""
    MigrationExecutor(connection).migrate([("jobs", name)])
    loaded = MigrationExecutor(connection).loader
    apps: Apps = loaded.project_state([("jobs", name)]).apps
    return apps


def states_of(apps: Apps, model: str, name: str) -> dict[str, tuple[object, ...]]:
    """Return the due state of each job, by its name."""
    rows = apps.get_model("jobs", model).objects.values_list(name, *COLUMNS)
    return {job: tuple(state) for job, *state in rows}


def test_the_due_state_moves_into_its_table_with_its_data_and_back() -> None:
    states = {
        "due": (NOON, 7, None, ""),
        "quarantined": (NOON, 1023, NOON + HOUR, "no such zone"),
        "disabled": (None, 0, None, ""),
    }
    try:
        apps = migrate(BEFORE)
        team = apps.get_model("jobs", "Team").objects.create(slug="data", name="Data")
        for name, state in states.items():
            values = dict(zip(COLUMNS, state, strict=True))
            apps.get_model("jobs", "Job").objects.create(
                owner=team, name=name, kind="command", payload={"command": "true"}, **values
            )
        assert states_of(migrate(AFTER), "JobNext", "job__name") == states
        assert states_of(migrate(BEFORE), "Job", "name") == states
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
