"""How values look on admin pages."""

from datetime import UTC, datetime, timedelta

import pytest

from chronoproject.adminkit.display import (
    clipped,
    clock,
    distance,
    elapsed,
    gist,
    instant,
    link,
    span,
    why,
)

NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "now"),
        (-12, "12 s ago"),
        (12, "in 12 s"),
        (-89, "89 s ago"),
        (-90, "2 min ago"),
        (3600, "in 60 min"),
        (-5400, "2 h ago"),
        (-3 * 86_400, "3 d ago"),
    ],
)
def test_distance_is_told_in_its_leading_unit(seconds: int, expected: str) -> None:
    assert distance(NOW + timedelta(seconds=seconds), NOW) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.012, "12 ms"),
        (3.14159, "3.1 s"),
        (59.6, "1 min"),
        (75, "1 min 15 s"),
        (3600, "1 h"),
        (5430, "1 h 30 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_span_has_two_units_at_most(seconds: float, expected: str) -> None:
    assert span(seconds) == expected


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("UTC", "2026-03-29 12:00:00 UTC"),
        ("Europe/Berlin", "2026-03-29 14:00:00 CEST"),
        ("America/Sao_Paulo", "2026-03-29 09:00:00 UTC-03"),
        ("No/Where", "2026-03-29 12:00:00 UTC"),
    ],
)
def test_clock_names_the_zone(zone: str, expected: str) -> None:
    assert clock(NOW, zone) == expected


def test_instant_tells_the_zone_the_distance_and_utc() -> None:
    shown = str(instant(NOW, NOW + timedelta(seconds=12), "Europe/Berlin"))
    assert "2026-03-29 14:00:00 CEST" in shown
    assert "12 s ago" in shown
    assert "2026-03-29 12:00:00.000000 UTC · Europe/Berlin" in shown
    assert instant(None) == "-"


def test_elapsed_needs_both_ends_and_is_never_negative() -> None:
    assert elapsed(NOW, None) == "-"
    assert elapsed(NOW, NOW - timedelta(seconds=5)) == "0 ms"


def test_gist_of_a_traceback_is_its_last_line() -> None:
    assert (
        gist("Traceback (most recent call last):\n  File x\nValueError: no\n") == "ValueError: no"
    )
    assert gist("refused\nmore") == "refused"
    assert gist(" \n") == ""


def test_texts_from_outside_are_escaped() -> None:
    bad = '<script>alert("x")</script>'
    for shown in (link("/x", bad), clipped(bad), why(bad, bad), why("", bad)):
        assert "<script>" not in str(shown)
        assert "&lt;script&gt;" in str(shown)
    assert why("", "") == "-"
