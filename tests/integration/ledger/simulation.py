"""Jobs written and dispatched at simulated instants, through the very services and dispatcher."""

import uuid
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from jobs import services
from jobs.models import Job, Team
from runs import batch, ledger, publisher
from runs.models import Misfire, Run
from runs.reconcile import Entry, Span
from runs.verify import Problem, Tally, Wanted, verify
from tests.integration import support

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
INSTANT = timedelta(microseconds=1)


class World:
    """One team's jobs, a clock that only the test moves, and a dispatcher that it calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, start: datetime) -> None:
        self.now = start
        self.start = start
        self.team: Team = support.team()
        monkeypatch.setattr(services, "db_now", lambda: self.now)
        for push in ("publish", "send"):  # the ledger is the database's alone
            monkeypatch.setattr(publisher, push, lambda found: len(found))

    def create(self, schedule: Any, **body: Any) -> Job:  # noqa: ANN401 - as a client writes it
        written = {"name": f"job-{uuid.uuid4().hex[:8]}", "command": "true", "schedule": schedule}
        return services.job_create(self.team, {**written, **body}, actor="test")

    def patch(self, job: Job, **changes: Any) -> Job:  # noqa: ANN401 - as a client writes it
        return services.job_patch(job.job_id, self.team, changes, actor="test")

    def pause(self, job: Job) -> Job:
        return services.job_pause(job, actor="test")

    def resume(self, job: Job) -> Job:
        return services.job_resume(job, actor="test")

    def delete(self, job: Job) -> Job:
        return services.job_delete(job, actor="test")

    def dispatch(self) -> None:
        """Do what a dispatcher does at this instant."""
        while batch.dispatch(self.now, None, lambda days: None).is_full:
            pass

    def run_until(self, end: datetime, step: timedelta) -> None:
        """Let the clock go on to `end`, dispatching at each step."""
        while self.now < end:
            self.now = min(end, self.now + step)
            self.dispatch()

    def verify(self, wanted: Wanted | None = None) -> tuple[Tally, list[Problem]]:
        """Verify everything since the start."""
        problems: list[Problem] = []
        before = self.now + INSTANT
        tally = verify(self.start, before, wanted or Wanted(), problems.append, now=before)
        return tally, problems

    def entries(self, job: Job, until: datetime | None = None) -> list[Entry]:
        """Read the job's ledger since the start, in pages of seven."""
        found: list[Entry] = []
        after = self.start - INSTANT
        while page := ledger.page(job.job_id, Span(after, until or self.now), 7):
            found += page
            after = page[-1].tick
        return found

    def fates(self, job: Job) -> Counter[str]:
        """Count the job's ticks by fate."""
        return Counter(entry.fate.value for entry in self.entries(job))


def ticks(job: Job) -> list[datetime]:
    """The ticks of the job that have a run."""
    rows = Run.objects.filter(job=job).exclude(trigger="manual").order_by("scheduled_for")
    return list(rows.values_list("scheduled_for", flat=True))


def misfires(job: Job) -> list[tuple[str, datetime, datetime, int]]:
    """The job's misfire ranges: rule, first, last, count."""
    rows = Misfire.objects.filter(job=job).order_by("first_tick", "rule")
    return list(rows.values_list("rule", "first_tick", "last_tick", "tick_count"))


def spoil(statement: str, *params: Any) -> None:  # noqa: ANN401 - SQL parameters
    """Change the database behind everyone's back, as no code of Chrono does."""
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        assert cursor.rowcount > 0
