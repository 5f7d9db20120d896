"""What a schedule will do, and what changes of the clocks do to it: shown before it is saved."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from jobs.cron.describe import describe
from jobs.cron.errors import NeverFires
from jobs.cron.evaluator import DstPolicy, Evaluator
from jobs.cron.posix_rule import DAY_SEC
from jobs.cron.ticks import evaluator_for, to_datetime, to_seconds
from jobs.cron.zones import Stretch, zone_info

NOTES_AHEAD_SEC = 350 * DAY_SEC  # each change of a year, none of them twice
_MANY = 4  # readings that are named one by one


@dataclass(frozen=True, slots=True)
class Note:
    """How one change of the clocks touches the job."""

    at: datetime  # the change
    text: str


@dataclass(frozen=True, slots=True)
class PreviewTick:
    tick: datetime
    local: datetime  # the same instant on the wall clock of the job's zone
    note: str | None


@dataclass(frozen=True, slots=True)
class Preview:
    description: str
    ticks: tuple[PreviewTick, ...]
    notes: tuple[Note, ...]


def preview(
    expression: str,
    timezone: str,
    after: datetime,
    count: int,
    *,
    hash_id: str | None = None,
    dst_policy: DstPolicy = "vixie",
) -> Preview:
    """The next `count` ticks, and notes on the changes of the clocks up to a year ahead."""
    evaluator = evaluator_for(expression, timezone, hash_id, dst_policy)
    start = to_seconds(after)
    seconds = list(_first(evaluator, start, count))
    if count > 0 and not seconds:
        raise NeverFires(f"there is no tick after {after.isoformat()} in {timezone}")
    end = max([start + NOTES_AHEAD_SEC, *seconds[-1:]])
    changes = [
        (stretch, text)
        for stretch in evaluator.zone.between(start + 1, end + 1)
        if start < _end_of_change(stretch) and (text := _note(evaluator, stretch))
    ]
    zone = zone_info(timezone)
    return Preview(
        description=describe(expression, hash_id),
        ticks=tuple(
            PreviewTick(tick, tick.astimezone(zone), _note_on(evaluator, second, changes))
            for second, tick in ((second, to_datetime(second)) for second in seconds)
        ),
        notes=tuple(Note(to_datetime(stretch.start), text) for stretch, text in changes),
    )


def _first(evaluator: Evaluator, after: int, count: int) -> Iterator[int]:
    found: int | None = after
    for _ in range(count):
        found = evaluator.next(found) if found is not None else None
        if found is not None:
            yield found


def _end_of_change(stretch: Stretch) -> int:
    """When the wall clock is again where it never was: at once, or after the second pass."""
    return stretch.start + max(0, stretch.reached - stretch.opening)


def _note(evaluator: Evaluator, stretch: Stretch) -> str:
    """What the change at the start of `stretch` does to the job; empty if nothing."""
    low, high = sorted((stretch.reached, stretch.opening))
    count = evaluator.count_walls(low, high)
    if count == 0:
        return ""
    which = _readings(evaluator, low, high, count)
    if stretch.opening > stretch.reached:
        missing = "does not exist" if count == 1 or evaluator.is_wildcard else "do not exist"
        return f"{which} {missing} on {_date(low)}: {_in_gap(evaluator, stretch, count)}"
    twice = "comes twice" if count == 1 or evaluator.is_wildcard else "come twice"
    often = "both times" if evaluator.is_wildcard else "the first time only"
    return f"{which} {twice} on {_date(low)}: runs {often}"


def _in_gap(evaluator: Evaluator, stretch: Stretch, count: int) -> str:
    if evaluator.is_wildcard:
        return "nothing runs in between"
    if not evaluator.runs_in_gaps:
        return "does not run (dstPolicy skip)"
    day = (
        "" if _date(stretch.reached) == _date(stretch.opening) else f" on {_date(stretch.opening)}"
    )
    return f"{'runs' if count == 1 else 'one run'} at {_clock(stretch.opening)}{day}"


def _readings(evaluator: Evaluator, low: int, high: int, count: int) -> str:
    """The readings of the wall clock in [low, high) that the expression names."""
    if evaluator.is_wildcard:
        return f"{_clock(low)} to {_clock(high)}"
    names: list[str] = []
    wall = low
    while len(names) < min(count, _MANY) and (found := evaluator.next_wall(wall)) is not None:
        names.append(_clock(found))
        wall = found + 1
    if count > _MANY:
        return f"{', '.join(names[:2])} and {count - 2} more"
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]


def _note_on(evaluator: Evaluator, tick: int, changes: list[tuple[Stretch, str]]) -> str | None:
    """The note that concerns one tick: made up for at the end of a gap, or inside a fold."""
    for stretch, text in changes:
        if stretch.opening > stretch.reached:
            if tick == stretch.start and not evaluator.is_wildcard and evaluator.runs_in_gaps:
                return text
            continue
        repeated = stretch.reached - stretch.opening
        if stretch.start - repeated <= tick < stretch.start + repeated:
            return text
    return None


def _clock(wall: int) -> str:
    reading = to_datetime(wall).time()
    return reading.isoformat("seconds" if reading.second else "minutes")


def _date(wall: int) -> str:
    return to_datetime(wall).date().isoformat()
