"""The ticks of an expression in a zone.

Two kinds of job (Vixie's rule). One with a * in minute or hour follows elapsed time: it runs at
every instant whose wall clock matches. Every other is a fixed-time job: each wall-clock time that
it names runs once, at the first instant at which the clock shows it or has jumped over it.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from jobs.cron.parse import Compiled
from jobs.cron.posix_rule import DAY_SEC, EPOCH_ORDINAL
from jobs.cron.zones import FIRST_SEC, LAST_SEC, Stretch, Zone

DstPolicy = Literal["vixie", "skip"]
_400_YEARS = 146_097 * DAY_SEC


class Evaluator:
    """One expression in one zone under one DST policy. Times are whole seconds since 1970."""

    __slots__ = ("_first_of_day", "_known", "is_wildcard", "runs_in_gaps", "spec", "zone")

    def __init__(self, spec: Compiled, zone: Zone, dst_policy: DstPolicy) -> None:
        self.spec = spec
        self.zone = zone
        self.is_wildcard = spec.is_wildcard
        self.runs_in_gaps = dst_policy == "vixie"
        self._first_of_day = self._time_at_or_after(0)
        self._known = (0, 0)  # the last answer: at every instant in [a, b) the next tick is b

    # The wall clock, without any zone.

    def next_wall(self, wall: int) -> int | None:
        """The first matching reading of the wall clock at or after `wall`."""
        day, second = divmod(wall, DAY_SEC)
        ordinal = day + EPOCH_ORDINAL
        found = self.spec.dates.next(ordinal)
        if found == ordinal:
            time = self._time_at_or_after(second)
            if time >= 0:
                return day * DAY_SEC + time
            found = self.spec.dates.next(ordinal + 1)
        if found is None:
            return None
        return (found - EPOCH_ORDINAL) * DAY_SEC + self._first_of_day

    def _time_at_or_after(self, second: int) -> int:
        """The first matching time of day, in seconds, at or after `second`; -1 if there is none."""
        spec = self.spec
        minute, second = divmod(second, 60)
        hour, minute = divmod(minute, 60)
        if spec.hours >> hour & 1:
            bits = spec.minutes >> minute
            if bits & 1:
                later = spec.seconds >> second
                if later:
                    return hour * 3600 + minute * 60 + second + _lowest(later)
                bits &= -2
            if bits:
                return hour * 3600 + (minute + _lowest(bits)) * 60 + _lowest(spec.seconds)
        bits = spec.hours >> (hour + 1)
        if not bits:
            return -1
        hour += 1 + _lowest(bits)
        return hour * 3600 + _lowest(spec.minutes) * 60 + _lowest(spec.seconds)

    def count_walls(self, start: int, end: int) -> int:
        """How many matching readings lie in [start, end)."""
        if start >= end:
            return 0
        first_day, first_second = divmod(start, DAY_SEC)
        last_day, last_second = divmod(end, DAY_SEC)
        dates, offset = self.spec.dates, EPOCH_ORDINAL
        count = dates.count(first_day + offset, last_day + offset) * self._times_before(DAY_SEC)
        if dates.count(first_day + offset, first_day + offset + 1):
            count -= self._times_before(first_second)
        if dates.count(last_day + offset, last_day + offset + 1):
            count += self._times_before(last_second)
        return count

    def _times_before(self, second: int) -> int:
        """How many matching times of day come before `second`."""
        spec = self.spec
        minute, second = divmod(second, 60)
        hour, minute = divmod(minute, 60)
        in_minute, per_minute = _count_below(spec.seconds, second), spec.seconds.bit_count()
        in_hour, per_hour = _count_below(spec.minutes, minute), spec.minutes.bit_count()
        count = _count_below(spec.hours, hour) * per_hour * per_minute
        if spec.hours >> hour & 1:
            count += in_hour * per_minute
            if spec.minutes >> minute & 1:
                count += in_minute
        return count

    # Instants.

    def next(self, after: int) -> int | None:
        """The first tick later than `after`, or None if the next 400 years have none."""
        start, tick = self._known
        if start <= after < tick:
            return tick
        return _remembered(self, after)

    def search(self, after: int) -> int | None:
        """The same, worked out anew."""
        limit = min(after + _400_YEARS, LAST_SEC)
        search = self._next_elapsed if self.is_wildcard else self._next_fixed
        found = search(max(after, FIRST_SEC), limit)
        if found is not None:
            self._known = (after, found)
        return found

    def _next_elapsed(self, after: int, limit: int) -> int | None:
        start = after + 1
        while start <= limit:
            stretch = self.zone.at(start)
            wall = self.next_wall(start + stretch.offset)
            if wall is None:
                return None
            if wall - stretch.offset < stretch.end:
                tick = wall - stretch.offset
                return tick if tick <= limit else None
            # Nothing more before this offset ends. The clock may then be set back by up to a day;
            # once that is past, it cannot match before it comes near the reading just found.
            is_past_folds = stretch.end > start + 2 * DAY_SEC
            start = max(stretch.end, wall - 3 * DAY_SEC) if is_past_folds else stretch.end
        return None

    def _next_fixed(self, after: int, limit: int) -> int | None:
        wall = self._shown_until(after)
        while True:
            found = self.next_wall(wall)
            if found is None:
                return None
            stretch = self.zone.reaching(found)
            tick = found - stretch.offset
            if tick < stretch.start:
                tick = stretch.start  # the reading lies in the gap before this stretch
                if not self.runs_in_gaps:
                    wall = stretch.opening
                    if wall > limit + DAY_SEC:
                        return None
                    continue
            return tick if tick <= limit else None

    def _shown_until(self, instant: int) -> int:
        """How far the wall clock has come by `instant`: the first reading not yet shown."""
        stretch = self.zone.at(instant)
        return max(stretch.reached, instant + stretch.offset + 1)

    def count(self, after: int, until: int) -> int:
        """How many ticks lie in (after, until]; the cost grows with years, not with ticks."""
        after, until = max(after, FIRST_SEC), min(until, LAST_SEC)
        if after >= until:
            return 0
        stretches = self.zone.between(after + 1, until + 1)
        if self.is_wildcard:
            return sum(
                self.count_walls(
                    max(stretch.start, after + 1) + stretch.offset,
                    min(stretch.end, until + 1) + stretch.offset,
                )
                for stretch in stretches
            )
        total = self.count_walls(self._shown_until(after), self._shown_until(until))
        return total - sum(
            self._without_own_tick(stretch) for stretch in stretches if stretch.start > after
        )

    def _without_own_tick(self, stretch: Stretch) -> int:
        """How many readings of the gap before `stretch` have no tick to themselves."""
        missing = self.count_walls(stretch.reached, stretch.opening)
        if missing == 0 or not self.runs_in_gaps:
            return missing
        has_ordinary = self.count_walls(stretch.opening, stretch.opening + 1)
        return missing - 1 + has_ordinary

    def gap_ticks(self, after: int, until: int) -> Iterator[int]:
        """The ends of gaps in (after, until] at which policy "skip" has left out a tick."""
        if self.is_wildcard or self.runs_in_gaps:
            return
        for stretch in self.zone.between(max(after, FIRST_SEC) + 1, min(until, LAST_SEC) + 1):
            if stretch.start <= after or not self.count_walls(stretch.reached, stretch.opening):
                continue
            if not self.count_walls(stretch.opening, stretch.opening + 1):
                yield stretch.start


@lru_cache(maxsize=65_536)
def _remembered(evaluator: Evaluator, after: int) -> int | None:
    """Ten thousand jobs due at midnight ask the same few hundred questions."""
    return evaluator.search(after)


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _count_below(bits: int, end: int) -> int:
    return (bits & ((1 << end) - 1)).bit_count()
