"""What is an expression, what is not, and what its author is told."""

from contextlib import suppress
from datetime import UTC, datetime
from time import process_time

import pytest

from jobs.cron import InvalidSchedule, NeverFires, check, next_ticks
from jobs.cron.parse import MAX_LENGTH, needs_hash

AFTER = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "field", "why"),
    [
        ("60 * * * *", "minute", "60 is out of range; use 0 to 59"),
        ("0 60 * * * *", "minute", "60 is out of range"),
        ("60 0 * * * *", "second", "60 is out of range"),
        ("* 24 * * *", "hour", "use 0 to 23"),
        ("* * 0 * *", "day-of-month", "use 1 to 31"),
        ("* * * 13 *", "month", "use 1 to 12, or JAN to DEC"),
        ("* * * * 8", "day-of-week", "use 0 to 7, or SUN to SAT"),
        ("* * * JANUARY *", "month", "not understood"),
        ("* * * MON *", "month", "MON is no name of this field"),
        ("MON * * * *", "minute", "MON is no name of this field"),
        ("*/0 * * * *", "minute", "the step is 0"),
        ("5/00 * * * *", "minute", "the step is 0"),
        ("/5 * * * *", "minute", "not understood"),
        ("5/ * * * *", "minute", "not understood"),
        ("5- * * * *", "minute", "not understood"),
        ("-5 * * * *", "minute", "not understood"),
        ("1-2-3 * * * *", "minute", "not understood"),
        ("50-10 * * * *", "minute", "such as 50-59,0-10"),
        ("* * * * FRI-TUE", "day-of-week", "runs backwards"),
        ("* * * * 7-1", "day-of-week", "runs backwards"),
        ("1,,2 * * * *", "minute", "empty term"),
        ("1,2, * * * *", "minute", "empty term"),
        ("*5 * * * *", "minute", "not understood"),
        ("? * * * *", "minute", "two day fields only"),
        ("* * * ? *", "month", "two day fields only"),
        ("* * ?/2 * *", "day-of-month", "? stands alone"),
        ("* * 1,? * *", "day-of-month", "? stands alone"),
        ("* * L-3 * *", "day-of-month", "LW"),
        ("* * 5L * *", "day-of-month", "not understood"),
        ("* * WL * *", "day-of-month", "not understood"),
        ("* * 1-5W * *", "day-of-month", "not understood"),
        ("* * LW/2 * *", "day-of-month", "not understood"),
        ("* * * * L", "day-of-week", "5L"),
        ("* * * * L5", "day-of-week", "5L"),
        ("* * * * 8L", "day-of-week", "out of range"),
        ("* * * * 1-5L", "day-of-week", "not understood"),
        ("* * * * 5W", "day-of-week", "not understood"),
        ("* * * * 1#6", "day-of-week", "use 1 to 5"),
        ("* * * * 1#99999999999", "day-of-week", "use 1 to 5"),
        ("* * * * XXX#1", "day-of-week", "XXX is no name"),
        ("* * * * 1-3#1", "day-of-week", "not understood"),
        ("H * * * *", "minute", "needs the id of a job"),
        ("* * * L *", "month", "not understood"),
        ("R * * * *", "minute", "not understood"),
        ("0 0 * * M\u041eN", "day-of-week", "character 10"),
        ("0 \u0660 * * *", "hour", "character 3"),
        ("0 0 * *\n*", "month", "blanks or tabs"),
        ("0 0 * * *\x00", "day-of-week", "character 10"),
        ("", "expression", "empty"),
        (" \t ", "expression", "empty"),
        ("* * * *", "expression", "has 4 fields"),
        ("* * * * * * 2026", "expression", "has 7 fields"),
        ("@reboot", "expression", "no macro; use one of @yearly"),
        ("@every 5m", "expression", "no macro"),
        ("@daily @hourly", "expression", "no macro"),
        ("0 0 * * * @daily", "day-of-week", "not understood"),
        ("*" * 1_001, "expression", "1001 characters; 1000 is the most"),
    ],
)
def test_a_refusal_names_the_field_and_what_would_be_right(
    expression: str, field: str, why: str
) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        check(expression, "UTC")
    assert refused.value.field == field
    assert why in str(refused.value)
    assert len(str(refused.value)) < 300
    assert not isinstance(refused.value, NeverFires)


@pytest.mark.parametrize(
    "expression",
    [
        "H(5-2) * * * *",
        "H(0-60) * * * *",
        "H() * * * *",
        "H/0 * * * *",
        "H-5 * * * *",
        "HH * * * *",
        "0 0 H(0-5) * *",
    ],
)
def test_a_wrong_hash_is_refused_even_with_an_id(expression: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        check(expression, "UTC", hash_id="job-1")
    assert refused.value.field in ("minute", "day-of-month")


def test_something_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="not a text"):
        check(None, "UTC")  # type: ignore[arg-type]
    with pytest.raises(InvalidSchedule, match="timezone"):
        check("* * * * *", None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 30 2 *",
        "0 0 31 2,4,6,9,11 *",
        "0 0 31W 2,4 *",
        "0 0 30W 2 *",
        "0 0 0 31 11 ?",
        "0 0 */15 2 5#4",
        "0 0 31 4 */2",
        "0 0 */29 2 1#5",
    ],
)
def test_what_has_no_date_in_400_years_never_fires(expression: str) -> None:
    with pytest.raises(NeverFires, match="no date in 400 years") as refused:
        check(expression, "UTC")
    assert refused.value.field == "day-of-month"


@pytest.mark.parametrize(
    ("expression", "first"),
    [
        ("0 0 29 2 *", "2028-02-29"),
        ("0 0 */28 2 1#5", "2044-02-29"),  # the longest wait: a leap day that is a fifth Monday
        ("0 0 29 2 */7", "2032-02-29"),
        ("0 0 30 2 1", "2026-02-02"),
        ("0 0 31 * 5#5", "2026-01-30"),
    ],
)
def test_rare_is_not_never(expression: str, first: str) -> None:
    assert next_ticks(expression, "UTC", AFTER, 1)[0].date().isoformat() == first


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@Annually", "0 0 1 JAN ?"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@daily", "0 0 */1 * *"),
        ("@midnight", "  0\t0  * * *  "),
        ("@HOURLY", "0 * * * *"),
        ("0 2 * * *", "0 0 2 * * *"),
        ("0 2 * * *", "000 0000002 * * *"),
        ("5-5 3-3 * * *", "5 3 * * *"),
        ("5/15 3 * * *", "5-59/15 3 * * *"),
        ("59/15 3 * * *", "59 3 * * *"),
        ("0/999999999999999 3 * * *", "0 3 * * *"),
        ("0 3 * * 7", "0 3 * * 0"),
        ("0 3 * * 0-7", "0 3 * * 0-6"),
        ("0 3 * * 5-7", "0 3 * * 0,5,6"),
        ("0 3 * * FRI-SUN", "0 3 * * 5-7"),
        ("0 3 * * 5-SUN", "0 3 * * fri,sat,sun"),
        ("0 3 * * SUN-SUN", "0 3 * * 0"),
        ("0 3 * * SUN-TUE", "0 3 * * 0-2"),
        ("0 3 * * MON-SUN/2", "0 3 * * 1,3,5,0"),
        ("0 3 * * 1/2", "0 3 * * 1,3,5,7"),
        ("0 3 * * */7", "0 3 ? * 0"),
        ("0 3 l * *", "0 3 L * *"),
        ("0 3 lw * *", "0 3 LW * *"),
        ("0 3 15w,1W * *", "0 3 1W,15W * *"),
        ("0 3 * * fril", "0 3 * * 5L"),
        ("0 3 * * mon#2", "0 3 * * 1#2"),
        ("0 3 * * 7L,7#1", "0 3 * * 0#1,0L"),
        ("0 3 * jan,3-MAR *", "0 3 * 1,3 *"),
        ("0 3 1-31 * MON", "0 3 * * *"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_two_spellings_of_the_same_schedule(one: str, other: str, zone: str) -> None:
    assert next_ticks(one, zone, AFTER, 40) == next_ticks(other, zone, AFTER, 40)


def test_a_day_field_that_starts_with_a_star_must_match_too() -> None:
    days = [tick.day for tick in next_ticks("0 0 */2 * MON", "UTC", AFTER, 4)]
    assert days == [5, 19, 9, 23]
    days = [tick.day for tick in next_ticks("0 0 1,15 * MON", "UTC", AFTER, 4)]
    assert days == [5, 12, 15, 19]


def test_a_thousand_hashed_jobs_spread_over_the_hour_and_stay_put() -> None:
    minutes = [
        next_ticks("H * * * *", "UTC", AFTER, 1, hash_id=f"job-{n}")[0].minute for n in range(1000)
    ]
    assert len(set(minutes)) == 60
    assert max(minutes.count(minute) for minute in range(60)) < 40
    again = [
        next_ticks("H * * * *", "UTC", AFTER, 1, hash_id=f"job-{n}")[0].minute for n in range(1000)
    ]
    assert again == minutes


def test_a_hashed_day_is_one_that_every_month_has() -> None:
    days = {next_ticks("0 0 H * *", "UTC", AFTER, 1, hash_id=f"job-{n}")[0].day for n in range(500)}
    assert days == set(range(1, 29))


def test_a_hashed_step_keeps_its_distance() -> None:
    for n in range(50):
        first, *_, last = next_ticks("H(10-50)/20 5 * * *", "UTC", AFTER, 2, hash_id=f"job-{n}")
        assert (last - first).total_seconds() == 1200
        assert 10 <= first.minute <= 29


def test_only_what_is_hashed_depends_on_the_job() -> None:
    assert needs_hash("H * * * *")
    assert needs_hash("0 0 * * THU,H")
    assert not needs_hash("0 0 * * thu")
    assert not needs_hash("@hourly")


HOSTILE = {
    "ten thousand characters": "0,1" + ",2" * 5_000 + " * * * *",
    "as long a list as may be": "0" + ",59" * 320 + " * * * *",
    "every field a long list": " ".join(["1-9/2,3-9,*/7,5" + ",2" * 60] * 6),
    "a number without end": "1" * 990 + " * * * *",
    "a step without end": "*/" + "9" * 980 + " * * * *",
    "many steps": ",".join(["0-59/1"] * 140) + " * * * *",
    "nested ranges": "1-2" * 320 + " * * * *",
    "never": "0 0 31W 2 *",
    "never, by all fourteen years": "0 0 */31 2,4,6,9,11 1#1,2#2,3#3",
    "decades apart": "0 0 */28 2 1#5",
    "only blanks": " " * 1_000,
    "stars": "*" * 1_000,
    "hashes": ",".join(["H(0-59)/7"] * 90) + " * * * *",
    "many nearest days": "0 0 " + ",".join(f"{n}W" for n in range(1, 32)) + " * *",
}


@pytest.mark.parametrize("expression", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_input_costs_milliseconds(expression: str) -> None:
    start = process_time()
    with suppress(InvalidSchedule):
        next_ticks(expression, "Europe/Berlin", AFTER, 5, hash_id="x")
    assert process_time() - start < 0.1


def test_a_time_that_its_zone_always_skips_never_fires() -> None:
    """02:00 to 03:00 of the second Sunday of March is a gap in New York, in every year to come."""
    start = process_time()
    with pytest.raises(NeverFires, match="skipped by a change of the clocks"):
        next_ticks("* 2 * 3 SUN#2", "America/New_York", AFTER, 1)
    assert process_time() - start < 0.5
    assert next_ticks("30 2 * 3 SUN#2", "America/New_York", AFTER, 1) == [
        datetime(2026, 3, 8, 7, tzinfo=UTC)
    ]


def test_the_longest_expression_is_still_read() -> None:
    expression = "0" + ",1" * ((MAX_LENGTH - 9) // 2) + " * * * *"
    assert len(expression) <= MAX_LENGTH
    assert next_ticks(expression, "UTC", AFTER, 2)[1].minute == 0
