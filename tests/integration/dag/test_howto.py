"""docs/howto/mixed-cadence.md does what it says."""

import json
import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from dag.api.represent import upstream_body
from dag.matching import date_start
from dag.selectors import upstreams_of
from dag.trigger_rules import Outcome
from jobs.models import Job
from jobs.schedule import Schedule
from jobs.selectors import schedule_of
from jobs.services import job_create
from runs import lifecycle
from runs.models import Run
from tests.factories import set_next
from tests.integration import support as rows
from tests.integration.dag.past import DAY, defined_long_ago, make_days, work
from tests.integration.dag.support import committed, end, end_all, ref_of, status

pytestmark = pytest.mark.django_db

TEXT = (Path(__file__).parents[3] / "docs/howto/mixed-cadence.md").read_text(encoding="utf-8")
BLOCKS = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)]
COUNTS = {
    datetime.strptime(day, "%d %B %Y").replace(tzinfo=UTC).date(): int(count)
    for day, count in re.findall(r"\| (\d+ \w+ \d{4})[^|]*\| (\d+) \|", TEXT)
}
ZONE = "Europe/Berlin"


def registered(body: dict[str, Any], first: datetime) -> Job:
    """Register the job as the page says, about to have its tick of the past."""
    made = job_create(rows.team(), body, actor="test")
    defined_long_ago(made)
    Job.objects.filter(job_id=made.job_id).update(misfire_grace_sec=200_000)
    set_next(made, next_run_at=first)
    return made


def next_morning(day: date) -> datetime:
    found = Schedule(timezone=ZONE, cron="0 2 * * *").next_after(date_start(day + DAY, ZONE))
    assert found is not None
    return found


def both(day: date) -> tuple[Job, Job, list[datetime]]:
    """Return the loads, the roll-up and the hours of the day, all dispatched."""
    start, morning = date_start(day, ZONE), next_morning(day)
    make_days(start)
    load_body, roll_up_body, _ = (json.loads(json.dumps(block)) for block in BLOCKS)
    load = registered(load_body, start)
    roll_up_body["dependsOn"][0]["jobId"] = str(load.job_id)
    roll_up = registered(roll_up_body, morning)
    work(morning)
    until = date_start(day + DAY, ZONE)
    return load, roll_up, list(schedule_of(load).ticks(start - DAY / 86_400, until - DAY / 86_400))


def test_the_page_names_a_date_of_each_length() -> None:
    assert sorted(COUNTS.values()) == [23, 24, 25]


@pytest.mark.parametrize("day", COUNTS)
def test_the_roll_up_starts_with_the_last_load(day: date) -> None:
    load, roll_up, hours = both(day)
    morning = next_morning(day)
    assert len(hours) == COUNTS[day]
    end_all(load, hours[:-1])
    assert status(roll_up, morning) == ("waiting", "dependency")
    (edge,) = upstreams_of(Run.objects.get(job=roll_up))
    assert edge.edge.expected == COUNTS[day]
    assert edge.outcomes == {Outcome.SUCCEEDED: COUNTS[day] - 1, Outcome.PENDING: 1}
    end(load, hours[-1])
    assert status(roll_up, morning) == ("queued", "")


def test_a_failed_load_skips_the_roll_up_until_it_is_run_again() -> None:
    (day,) = (one for one, count in COUNTS.items() if count == 23)
    load, roll_up, hours = both(day)
    morning = next_morning(day)
    end_all(load, hours[1:])
    end(load, hours[0], "dead")
    assert status(roll_up, morning) == ("skipped", "upstream_failed")
    with committed():
        lifecycle.rerun([ref_of(load, hours[0])])
    end(load, hours[0])
    assert status(roll_up, morning) == ("queued", "")
    assert Run.objects.get(job=roll_up).priority == "low"


def test_the_answer_that_is_shown_is_one() -> None:
    ((shown,),) = (block["results"] for block in BLOCKS if "results" in block)
    (day,) = (one for one, count in COUNTS.items() if count == shown["expected"])
    load, roll_up, hours = both(day)
    end_all(load, hours[:-1])
    (edge,) = upstreams_of(Run.objects.get(job=roll_up))
    real = upstream_body(edge)
    assert shown == {name: real[name] for name in shown}
