"""Schedules in words."""

import pytest

from jobs.cron import InvalidSchedule, describe


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 2 * * *", "At 02:00, every day"),
        ("@daily", "At 00:00, every day"),
        ("@hourly", "Every hour"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("* * * * *", "Every minute"),
        ("*/20 * * * * *", "Every 20 seconds"),
        ("59/15 * * * *", "At 59 minutes past the hour"),
        ("0 */24 * * *", "At 00:00"),
        ("5 4 3 2 1 *", "At 03:04:05, on day 2 of the month, in January"),
        ("30 9 * * 1-5", "At 09:30, on Monday to Friday"),
        ("0 0 * * FRI-SUN", "At 00:00, on Friday to Sunday"),
        ("0 0 * * 0,3", "At 00:00, on Wednesday and Sunday"),
        ("0 0 13 * 5", "At 00:00, on day 13 of the month or on Friday"),
        ("0 0 1-7 * */7", "At 00:00, on days 1 to 7 of the month if it is also on Sunday"),
        ("0 0 */2 * *", "At 00:00, on days 1, 3, 5 … 31 of the month"),
        ("0 0 1-31 * MON", "At 00:00, every day"),
        ("0 0 L * *", "At 00:00, on the last day of the month"),
        ("0 0 15,L * *", "At 00:00, on day 15 of the month and the last day of the month"),
        (
            "0 0 LW 5,6 *",
            "At 00:00, on the last working day (Monday to Friday) of the month, in May and June",
        ),
        (
            "0 0 1W,15W * *",
            "At 00:00, on the working day (Monday to Friday) nearest to day 1 or 15",
        ),
        ("0 0 * * 5#3", "At 00:00, on the third Friday of the month"),
        ("0 0 * * 0#1,3#2", "At 00:00, on the first Sunday and the second Wednesday of the month"),
        ("0 0 * * 2,5L", "At 00:00, on Tuesday and the last Friday of the month"),
        ("0 0 1 * 5L", "At 00:00, on day 1 of the month or on the last Friday of the month"),
        ("0 0 1 6-8 *", "At 00:00, on day 1 of the month, in June to August"),
    ],
)
def test_words(expression: str, words: str) -> None:
    assert describe(expression) == words


def test_a_hash_is_described_as_what_it_became() -> None:
    assert describe("H H * * *", hash_id="hello") == "At 11:10, every day"
    with pytest.raises(InvalidSchedule, match="needs the id of a job"):
        describe("H H * * *")


def test_what_cannot_be_read_cannot_be_described() -> None:
    with pytest.raises(InvalidSchedule):
        describe("0 0 * *")
