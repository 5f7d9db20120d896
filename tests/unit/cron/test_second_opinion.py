"""croniter as a second opinion, on what it is right about: plain dates and times in UTC."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.cron import InvalidSchedule, NeverFires, next_ticks
from jobs.cron import second_opinion as module
from jobs.cron.second_opinion import check_second_opinion, second_opinion
from tests.unit.cron import strategies

CORPUS = Path(__file__).parents[2] / "data" / "cron_public.jsonl"


@settings(max_examples=80, derandomize=True, deadline=None, database=None)
@given(st.data(), st.datetimes(datetime(1971, 1, 1), datetime(2040, 1, 1)))  # noqa: DTZ001
def test_croniter_agrees_on_random_expressions(data: st.DataObject, near: datetime) -> None:
    after = near.replace(microsecond=0, tzinfo=UTC)
    parts = [
        strategies.minutes(),
        strategies.hours(near.hour),
        strategies.days(near),
        strategies.months(near),
        strategies.weekdays(near),
    ]
    if data.draw(st.booleans()):
        parts.insert(0, strategies.minutes())
    expression = " ".join(data.draw(part) for part in parts)
    try:
        theirs = second_opinion(expression, "job-1", after, 4)
        ours = next_ticks(expression, "UTC", after, 4, hash_id="job-1")
    except NeverFires:
        return
    assert theirs is None or theirs == ours


def test_croniter_agrees_on_the_corpus() -> None:
    asked = 0
    for line in map(json.loads, CORPUS.read_text().splitlines()):
        if "expect" in line:
            check_second_opinion(line["expr"], line.get("hash_id"))
            asked += 1
    assert asked == 372


@pytest.mark.parametrize(
    "expression",
    ["0 0 L * *", "0 0 LW * *", "0 0 9W * *", "0 0 * * 5L,1", "0 0 * * 1#2"],
)
def test_it_has_no_say_on_rules_of_the_month(expression: str) -> None:
    after = datetime(2096, 3, 1, tzinfo=UTC)
    assert second_opinion(expression, None, after, 9) is None
    check_second_opinion(expression)


def test_a_disagreement_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def an_hour_late(*_: object) -> list[datetime]:
        return [datetime(2024, 1, 31, 4, tzinfo=UTC) + timedelta(days=n) for n in range(3)]

    monkeypatch.setattr(module, "second_opinion", an_hour_late)
    with pytest.raises(InvalidSchedule, match="two evaluators disagree"):
        check_second_opinion("0 3 31 12 *")
