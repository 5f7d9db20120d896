"""What the benchmarks share: private servers, a migrated database, many jobs, medians.

Run a script as `python -m bench.<name>`; it prints one JSON object.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from chronoproject.embedded import EmbeddedPostgres, EmbeddedValkey, free_port, running

ROOT = Path(__file__).parent.parent


@contextmanager
def servers(
    *, postgres: type[EmbeddedPostgres] = EmbeddedPostgres, **environment: str
) -> Iterator[Path]:
    """Run a durable PostgreSQL and a Valkey of our own; set Django up on them, migrated."""
    home = Path(tempfile.mkdtemp(prefix="chrono-bench-"))
    before = dict(os.environ)
    database, valkey = postgres(home / "postgres"), EmbeddedValkey(home / "valkey")
    try:
        with (
            (home / "servers.log").open("ab") as log,
            running(database, log),
            running(valkey, log),
        ):
            os.environ |= {
                "DATABASE_URL": database.url,
                "REDIS_URL": valkey.url,
                "CHRONO_HOME": str(home / "chrono"),
                "DJANGO_SETTINGS_MODULE": "chronoproject.settings",
                "PYTHONTZPATH": "",
                **environment,
            }
            set_up_django()
            yield home
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(home, ignore_errors=True)


def set_up_django(*, migrate: bool = True) -> None:
    """Set Django up by the environment."""
    import django
    from django.core.management import call_command

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chronoproject.settings")
    django.setup()
    if migrate:
        call_command("migrate", verbosity=0)


@contextmanager
def chrono(**environment: str) -> Iterator[dict[str, Any]]:
    """Run bin/up in a home of its own; yield what up.json says, and the home."""
    home = Path(tempfile.mkdtemp(prefix="chrono-bench-"))
    env = {
        **os.environ,
        "CHRONO_HOME": str(home),
        "CHRONO_PORT": str(free_port()),
        "CHRONO_FLOWER_PORT": str(free_port()),
        **environment,
    }
    up = [str(ROOT / "bin/up")]
    try:
        subprocess.run([*up, "--detach", "--no-demo"], env=env, check=True, stdout=sys.stderr)
        yield {"home": home, **json.loads((home / "up.json").read_text())}
    finally:
        subprocess.run([*up, "--stop"], env=env, check=True, stdout=sys.stderr)
        shutil.rmtree(home, ignore_errors=True)


def execute(statement: str, *params: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401
    """Run one statement on Django's connection; return its rows, if it has any."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement, params or None)
        return cursor.fetchall() if cursor.description else []


def make_jobs(count: int, schedules: Sequence[str], team: str = "bench") -> int:
    """Insert `count` no-op task jobs with version 1, spread over the schedules; return the team."""
    ((team_id,),) = execute(
        "INSERT INTO teams (slug, name) VALUES (%s, %s)"
        " ON CONFLICT (slug) DO UPDATE SET name = excluded.name RETURNING team_id",
        team,
        team,
    )
    payload = json.dumps({"type": "task", "task": "chrono.noop", "args": [], "kwargs": {}})
    execute(
        """
        INSERT INTO jobs (job_id, owner, name, description, tags, schedule, timezone, dst_policy,
            kind, payload, env, timeout_sec, kill_grace_sec, max_retries, backoff_base_sec,
            backoff_factor, backoff_max_sec, backoff_jitter, concurrency_policy, misfire_policy,
            misfire_grace_sec, max_catchup, trigger_rule, dependency_timeout_sec, priority, pool,
            enabled, pause_reason, has_upstreams, version)
        SELECT gen_random_uuid(), %s, 'job-' || n, '', '{}', (%s::text[])[1 + n %% %s], 'UTC',
            'vixie', 'task', %s::jsonb, '{}', 60, 10, 0, 10, 2, 3600, 0.1, 'queue', 'run_once', 60,
            100, 'all_success', 86400, 'normal', 'default', true, '', false, 1
        FROM generate_series(1, %s) AS n
        """,
        team_id,
        list(schedules),
        len(schedules),
        payload,
        count,
    )
    _make_due_states()
    _make_versions()
    for table in ("jobs", "job_next", "job_versions"):
        execute(f"VACUUM (ANALYZE) {table}")
    return int(team_id)


def _make_due_states() -> None:
    """Give each job that has none its due state: in a month, whatever its schedule says."""
    execute(
        """
        INSERT INTO job_next (job_id, next_run_at, bucket, quarantine_reason)
        SELECT job_id, clock_timestamp() + interval '30 days', row_number() OVER () % 1024, ''
        FROM jobs j WHERE NOT EXISTS (SELECT FROM job_next n WHERE n.job_id = j.job_id)
        """
    )


def _make_versions() -> None:
    """Give each job that has none its version 1."""
    from jobs.cron import TZDATA_VERSION

    execute(
        """
        INSERT INTO job_versions (job_id, version, definition, change, changed_by, valid_from,
                                  tzdata_version)
        SELECT job_id, 1, jsonb_build_object('name', name, 'kind', kind, 'payload', payload,
            'env', env, 'timeoutSec', 60, 'killGraceSec', 10, 'retries', 0, 'backoff',
            jsonb_build_object('baseSec', 10, 'factor', 2, 'maxSec', 3600, 'jitter', 0.1)),
            'create', 'bench', clock_timestamp(), %s
        FROM jobs j WHERE NOT EXISTS (SELECT FROM job_versions v WHERE v.job_id = j.job_id)
        """,
        TZDATA_VERSION,  # or else the first dispatcher computes every next tick anew
    )


def show(figures: dict[str, Any]) -> None:
    """Print the figures with the machine they were measured on."""
    machine = {"python": platform.python_version(), "cpus": os.cpu_count()}
    sys.stdout.write(json.dumps({**figures, "machine": machine}, indent=2) + "\n")


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median, least and greatest, rounded to a tenth of a millisecond where seconds."""
    return {
        "median": round(median(values), 4),
        "min": round(min(values), 4),
        "max": round(max(values), 4),
    }
