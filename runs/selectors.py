"""Reads of runs for the API and the admin: a team's own, by keyset, never counted."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q

from jobs.errors import NotFound
from jobs.models import Job, Team
from runs.floor import SQL
from runs.ids import MILLISECOND, millisecond_of
from runs.models import Run, RunAttempt, RunQuerySet
from runs.records import RunRef


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What a list of runs is narrowed to; `since` is inclusive, `until` is not."""

    statuses: Sequence[str] = field(default=())
    triggers: Sequence[str] = field(default=())
    since: datetime | None = None
    until: datetime | None = None


def run_get(team: Team, run_id: uuid.UUID) -> Run:
    """Return the team's run with its job; NotFound for another team's."""
    try:
        run = _runs().by_id(run_id).filter(owner=team).select_related("job").first()
    except OverflowError:  # an id of something else, whose first bits are no time of ours
        run = None
    if run is None:
        raise NotFound("There is no such run.")
    return run


def run_ref(run: Run) -> RunRef:
    """Return the run's database key."""
    return RunRef(run.run_id, run.scheduled_for)


def refs_of(run_ids: Sequence[uuid.UUID]) -> list[tuple[RunRef, int]]:
    """Return (key, team's id) of those runs that exist, in primary key order."""
    if not run_ids:
        return []
    instants = [millisecond_of(run_id) for run_id in run_ids]
    rows = Run.objects.filter(
        run_id__in=run_ids,
        scheduled_for__gte=min(instants),
        scheduled_for__lt=max(instants) + MILLISECOND,
    ).values_list("run_id", "scheduled_for", "owner_id")
    return sorted((RunRef(run_id, instant), owner_id) for run_id, instant, owner_id in rows)


def job_runs_page(job: Job, wanted: RunFilter, *, after: datetime | None, limit: int) -> list[Run]:
    """Return up to `limit` runs of a job, newest tick first, older than `after`."""
    runs = _narrowed(_runs().filter(job=job), wanted)
    if after is not None:
        runs = runs.filter(scheduled_for__lt=after)
    return list(runs.defer("output", "payload").order_by("-scheduled_for")[:limit])


def team_runs_page(
    team: Team, wanted: RunFilter, *, after: tuple[datetime, uuid.UUID] | None, limit: int
) -> list[Run]:
    """Return up to `limit` runs of a team, newest tick first, after (scheduled_for, run_id)."""
    runs = _narrowed(_runs().filter(owner=team), wanted)
    if after is not None:
        instant, run_id = after
        runs = runs.filter(scheduled_for__lte=instant).filter(
            Q(scheduled_for__lt=instant) | Q(run_id__gt=run_id)
        )
    runs = runs.select_related("job").defer("output", "payload")
    return list(runs.order_by("-scheduled_for", "run_id")[:limit])


def newest_runs(job_ids: Sequence[uuid.UUID]) -> list[Run]:
    """Return the newest run of each job that has one, as `job_name` too, in one statement."""
    return list(Run.objects.raw(SQL["newest_runs"].text, {"job_id": list(job_ids)}))


def attempts_of(run: Run) -> list[RunAttempt]:
    """Return the run's archived attempts, oldest first; the present one stands in its row."""
    attempts = RunAttempt.objects.filter(run_id=run.run_id, scheduled_for=run.scheduled_for)
    return list(attempts.order_by("attempt"))


def _runs() -> RunQuerySet:
    queryset = Run.objects.all()
    assert isinstance(queryset, RunQuerySet)  # noqa: S101 - the manager is made from it
    return queryset


def _narrowed(runs: RunQuerySet, wanted: RunFilter) -> RunQuerySet:
    if wanted.statuses:
        runs = runs.filter(status__in=wanted.statuses)
    if wanted.triggers:
        runs = runs.filter(trigger__in=wanted.triggers)
    if wanted.since is not None:
        runs = runs.filter(scheduled_for__gte=wanted.since)
    if wanted.until is not None:
        runs = runs.filter(scheduled_for__lt=wanted.until)
    return runs
