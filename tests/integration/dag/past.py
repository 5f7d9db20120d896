"""The dispatcher at work in hours of the past: a test says which instant it is."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial

from dag import sweeps
from jobs.models import Job, JobVersion
from runs import partitions
from runs.batch import dispatch
from tests.integration.dag import support

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
DAY = timedelta(days=1)
LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)


def make_days(around: datetime, offsets: Iterable[int] = range(-3, 4)) -> None:
    """Make the partitions of the days around an instant."""
    partitions.ensure([(around + timedelta(days=offset)).date() for offset in offsets])


def defined_long_ago(*jobs: Job) -> None:
    """Let the jobs' versions reach back, so that their schedules speak for the past."""
    JobVersion.objects.filter(job__in=jobs).update(valid_from=LONG_AGO)


def scheduled(cron: str, first: datetime, **values: object) -> Job:
    """Return a job whose next tick is `first`, defined long before."""
    made = support.job(schedule=cron, next_run_at=first, **values)
    defined_long_ago(made)
    return made


def driven(*upstreams: object, **values: object) -> Job:
    """Return a job without a schedule below these, defined long before."""
    made = support.after(support.job(**values), *upstreams)  # type: ignore[arg-type]
    defined_long_ago(made)
    return made


def work(now: datetime) -> None:
    """Dispatch all that is due at `now`."""
    with support.committed():
        while dispatch(now, None, lambda days: None).is_full:
            continue


def sweep() -> int:
    """Let the sweep look at every waiting run."""
    walk = sweeps.Walk("page_waiting", pages=5)
    return support.look(partial(sweeps.resolve_waiting, walk))
