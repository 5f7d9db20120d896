"""Random edits around ticks, dispatched or not: no tick is lost, none is made up."""

import os
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.errors import FieldErrors
from jobs.fields import instant_text
from jobs.models import Job, JobNext, JobVersion, Pause
from runs.models import Run
from tests.integration.ledger.simulation import MINUTE, SECOND, World

pytestmark = pytest.mark.django_db(transaction=True)

# The night in which Europe puts its clocks on; Lord Howe and Chile follow a week later.
START = datetime(2026, 3, 28, 22, 30, tzinfo=UTC)
# CHRONO_TEST_EDITS=1000 takes half a minute, and CHRONO_TEST_SEED draws other ones.
EDITS = int(os.environ.get("CHRONO_TEST_EDITS", "150"))
SEED = int(os.environ.get("CHRONO_TEST_SEED", "1"))
JOBS = 12
SCHEDULES: tuple[Any, ...] = (
    "* * * * *",
    "*/7 * * * *",
    "*/20 * * * * *",
    "30 0-3 * * *",
    "15,45 1-4 * * *",
    "0 * * * *",
    "H/5 * * * *",
    {"everySec": 45},
    {"everySec": 90, "anchor": "2026-01-01T00:00:07Z"},
    None,
)
ZONES = ("UTC", "Europe/Berlin", "Europe/London", "Africa/Casablanca", "Asia/Kathmandu")
POLICIES = ("run_once", "run_all", "skip")


class Editor:
    """Draws edits and the instants at which they are made."""

    def __init__(self, world: World, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = world
        self.jobs = [self.create() for _ in range(JOBS)]
        self.pause: Pause | None = None

    def create(self) -> Job:
        return self.world.create(
            self.random.choice(SCHEDULES), timezone=self.random.choice(ZONES), **self.policy()
        )

    def policy(self) -> dict[str, Any]:
        return {
            "misfirePolicy": self.random.choice(POLICIES),
            "misfireGraceSec": self.random.choice((0, 10, 60, 600)),
            "maxCatchup": self.random.choice((0, 2, 100)),
            "dstPolicy": self.random.choice(("vixie", "skip")),
        }

    def move_clock(self, job: Job) -> None:
        """Go on to an instant around the job's next tick, or just some way."""
        now = self.world.now
        next_run_at = JobNext.objects.get(job=job).next_run_at
        if next_run_at is not None and self.random.random() < 0.6:
            around = self.random.choice((timedelta(0), self.span(SECOND), -self.span(SECOND)))
            moved = next_run_at + around
            if now < moved < now + 10 * MINUTE:
                self.world.now = moved
                return
        self.world.now = now + self.span(2 * MINUTE)

    def span(self, longest: timedelta) -> timedelta:
        return timedelta(microseconds=self.random.randint(1, longest // timedelta(microseconds=1)))

    def edit(self, place: int) -> bool:
        """Make one random edit of a job; False if it was refused or changed nothing."""
        job = self.jobs[place]
        acts: list[Callable[[], Job]] = [
            lambda: self.world.patch(job, schedule=self.random.choice(SCHEDULES)),
            lambda: self.world.patch(job, timezone=self.random.choice(ZONES)),
            lambda: self.world.patch(job, **self.dates()),
            lambda: self.world.patch(job, startsAt=None, endsAt=None),
            lambda: self.world.patch(job, **self.policy()),
            lambda: self.world.pause(job),
            lambda: self.world.resume(job),
            lambda: self.replace(job),
        ]
        weights = (6, 3, 2, 2, 3, 3, 6, 0.5)
        try:
            edited = self.random.choices(acts, weights)[0]()
        except FieldErrors:
            return False
        self.jobs[place] = edited
        return (edited.job_id, edited.version) != (job.job_id, job.version)

    def dates(self) -> dict[str, Any]:
        start = self.world.now + self.span(10 * MINUTE) - 5 * MINUTE
        return {
            "startsAt": self.random.choice((None, instant_text(start))),
            "endsAt": self.random.choice((None, instant_text(start + self.span(30 * MINUTE)))),
        }

    def replace(self, job: Job) -> Job:
        self.world.delete(job)
        return self.create()

    def turn_team_pause(self) -> None:
        if self.pause is None:
            self.pause = Pause.objects.create(created_by="test", created_at=self.world.now)
        else:
            Pause.objects.update(ended_at=self.world.now)
            self.pause = None


def edit_at_random(editor: Editor, edits: int) -> None:
    """Make that many edits, in stretches with a dispatcher and stretches without."""
    done, is_dispatching = 0, True
    while done < edits:
        if editor.random.random() < 0.05:
            is_dispatching = not is_dispatching
        if editor.random.random() < 0.01:
            editor.turn_team_pause()
        place = editor.random.randrange(JOBS)
        editor.move_clock(editor.jobs[place])
        if is_dispatching and editor.random.random() < 0.7:
            editor.world.dispatch()
        done += editor.edit(place)
        if is_dispatching and editor.random.random() < 0.3:
            editor.world.dispatch()


def runs_outside_their_version() -> list[tuple[str, datetime]]:
    """Runs at a tick before the edit that made their version, or after the one that ended it."""
    versions = {(version.job_id, version.version): version for version in JobVersion.objects.all()}
    outside = []
    for run in Run.objects.all():
        version = versions[run.job_id, run.job_version]
        is_late = version.valid_to is not None and run.scheduled_for > version.valid_to
        if run.scheduled_for <= version.valid_from or is_late:
            outside.append((str(run.job_id), run.scheduled_for))
    return outside


@pytest.mark.timeout(600)
def test_random_edits_lose_no_tick_and_make_none_up(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, START)
    editor = Editor(world, SEED)
    edit_at_random(editor, EDITS)
    tally, problems = world.verify()
    assert [(problem.entry, problem.job.name) for problem in problems] == []
    assert tally.expected == tally.found > 5 * EDITS
    world.dispatch()
    tally, problems = world.verify()
    assert problems == []
    assert tally.due == 0
    assert runs_outside_their_version() == []
