"""Run ids: derived, ordered by time, and pointing at their day."""

import uuid
from datetime import UTC, datetime, timedelta

from runs.ids import day_of, millisecond_of, run_id_of

JOB = uuid.UUID("6a6c1c3e-3a55-4c1b-8a5c-0b7f0d6a3f10")
TICK = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)


def test_the_same_tick_has_the_same_id_everywhere() -> None:
    assert run_id_of(JOB, TICK) == uuid.UUID("01a22507-d500-87fe-a822-684893f888d2")
    assert run_id_of(JOB, TICK) == run_id_of(uuid.UUID(str(JOB)), TICK)


def test_an_id_is_a_version_8_uuid_that_begins_with_its_millisecond() -> None:
    instant = TICK + timedelta(microseconds=123_456)
    run_id = run_id_of(JOB, instant)
    assert (run_id.version, run_id.variant) == (8, uuid.RFC_4122)
    assert millisecond_of(run_id) == TICK + timedelta(milliseconds=123)


def test_ids_differ_by_job_and_by_microsecond() -> None:
    ids = {run_id_of(uuid.UUID(int=n), TICK) for n in range(1000)}
    ids |= {run_id_of(JOB, TICK + timedelta(microseconds=n)) for n in range(1000)}
    assert len(ids) == 2000


def test_ids_sort_by_time() -> None:
    ids = [run_id_of(JOB, TICK + timedelta(seconds=n)) for n in range(100)]
    assert ids == sorted(ids)


def test_a_day_starts_at_midnight_utc() -> None:
    assert day_of(TICK + timedelta(hours=21)) == datetime(2026, 11, 29, tzinfo=UTC)
