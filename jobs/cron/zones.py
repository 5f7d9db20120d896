"""Time zones of the pinned tzdata package, as stretches of time with one offset each.

The system's zone files and PYTHONTZPATH are never looked at: two hosts with the same requirements
must agree on every tick. All times here are whole seconds since 1970, in UTC or on the wall.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import date
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from itertools import chain
from typing import NamedTuple
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]  # it holds data, and two names

from jobs.cron.dates import LAST_ORDINAL
from jobs.cron.errors import InvalidSchedule, shown
from jobs.cron.posix_rule import DAY_SEC, EPOCH_ORDINAL, PosixRule, parse_rule

TZDATA_VERSION: str = tzdata.IANA_VERSION  # such as "2026f": the later, the greater
# Two days at either end of the calendar are left out, so that no offset leads beyond it.
FIRST_SEC = (1 + 2 - EPOCH_ORDINAL) * DAY_SEC
LAST_SEC = (LAST_ORDINAL - 2 - EPOCH_ORDINAL) * DAY_SEC
_BEFORE_ALL = FIRST_SEC - 10 * DAY_SEC
_AFTER_ALL = LAST_SEC + 10 * DAY_SEC
_TABLE_YEARS = 2_050  # until then every change is in the table, later ones are worked out by year
_HEADER = struct.Struct(">4sc15x6I")


class Stretch(NamedTuple):
    """[start, end) in UTC, in which the wall clock shows UTC + offset.

    `reached` is how far the wall clock had come before `start` (exclusive). If start + offset is
    less, the clock was set back and shows what lies between again: a fold. If it is more, what lies
    between is never shown: a gap.
    """

    start: int
    end: int
    offset: int
    reached: int

    @property
    def opening(self) -> int:
        """The wall clock at `start`."""
        return self.start + self.offset


class Stretches:
    """Stretches in order of time, without holes."""

    __slots__ = ("_all", "_reached", "_starts")

    def __init__(self, first_offset: int, changes: Iterable[tuple[int, int]]) -> None:
        self._all = list(_stretches(first_offset, changes))
        self._starts = [stretch.start for stretch in self._all]
        self._reached = [stretch.reached for stretch in self._all]

    def at(self, instant: int) -> Stretch:
        """The stretch that holds `instant` (UTC)."""
        return self._all[bisect_right(self._starts, instant) - 1]

    def reaching(self, wall: int) -> Stretch:
        """The stretch in which the wall clock first shows `wall`, or jumps over it."""
        return self._all[bisect_right(self._reached, wall) - 1]


class Zone:
    """One time zone. Compared by identity: load_zone makes each of them once."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        first_offset, changes, self._rule = _read_tzif(data)
        last_year = _year(changes[-1][0]) if changes else 0
        self._horizon = _AFTER_ALL
        if self._rule.is_yearly:
            horizon_year = max(_TABLE_YEARS, last_year + 2)
            later = self._rule.changes_between(last_year, horizon_year + 1)
            changes += [change for change in later if not changes or change[0] > changes[-1][0]]
            self._horizon = (date(horizon_year, 1, 1).toordinal() - EPOCH_ORDINAL) * DAY_SEC
        self._table = Stretches(first_offset, changes)
        self._by_year = lru_cache(maxsize=512)(self._around_year)

    def at(self, instant: int) -> Stretch:
        """The stretch that holds `instant` (UTC)."""
        near = self._table if instant < self._horizon else self._by_year(_year(instant))
        return near.at(instant)

    def reaching(self, wall: int) -> Stretch:
        """The stretch in which the wall clock first shows `wall`, or jumps over it."""
        near = self._table if wall < self._horizon else self._by_year(_year(wall))
        return near.reaching(wall)

    def between(self, start: int, end: int) -> Iterator[Stretch]:
        """The stretches that hold any instant of [start, end)."""
        while start < end:
            stretch = self.at(start)
            yield stretch
            start = stretch.end

    def _around_year(self, year: int) -> Stretches:
        first, *rest = self._rule.changes_between(year - 2, year + 1)
        return Stretches(first[1], rest)


@lru_cache(maxsize=1_024)
def load_zone(name: str) -> Zone:
    """The zone of that IANA name; InvalidSchedule if tzdata has none."""
    return Zone(name, _read_file(name))


@lru_cache(maxsize=1_024)
def zone_info(name: str) -> ZoneInfo:
    """The same zone as a tzinfo, for showing times."""
    _check_name(name)
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Every name that tzdata knows."""
    return frozenset(files("tzdata").joinpath("zones").read_text("ascii").split())


def _read_file(name: str) -> bytes:
    _check_name(name)
    return files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


def _check_name(name: str) -> None:
    """Only listed names become a path: nothing from outside is ever opened."""
    if isinstance(name, str) and name in zone_names():
        return
    hint = "use an IANA name such as Europe/Berlin or UTC"
    if isinstance(name, str) and len(name) <= 60:
        by_lower = {known.lower(): known for known in sorted(zone_names())}
        close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.8)
        hint = f"did you mean {by_lower[close[0]]}?" if close else hint
    raise InvalidSchedule(f"timezone {shown(str(name))} is not known; {hint}", field="timezone")


def _stretches(first_offset: int, changes: Iterable[tuple[int, int]]) -> Iterator[Stretch]:
    start, offset, reached = _BEFORE_ALL, first_offset, _BEFORE_ALL - 10 * DAY_SEC
    for change, next_offset in chain(changes, [(_AFTER_ALL, 0)]):
        if next_offset == offset and change != _AFTER_ALL:
            continue  # only the name of the offset changes
        yield Stretch(start, change, offset, reached)
        reached = max(reached, change + offset)
        start, offset = change, next_offset


def _read_tzif(data: bytes) -> tuple[int, list[tuple[int, int]], PosixRule]:
    """First offset, changes as (instant, offset from then on), and later rule (RFC 8536)."""
    skipped = _block_size(data, 0, time_size=4)
    start = skipped + _HEADER.size
    magic, version, _, _, _, times, types, _ = _HEADER.unpack_from(data, skipped)
    if magic != b"TZif" or version < b"2":
        raise ValueError("not a TZif file of version 2 or later")
    instants = struct.unpack_from(f">{times}q", data, start)
    kinds = data[start + 8 * times : start + 9 * times]
    offsets = [
        struct.unpack_from(">i", data, start + 9 * times + 6 * place)[0] for place in range(types)
    ]
    footer = data[skipped + _block_size(data, skipped, time_size=8) :]
    changes = [(instant, offsets[kind]) for instant, kind in zip(instants, kinds, strict=True)]
    return offsets[0], changes, parse_rule(footer.strip(b"\n").decode("ascii"))


def _block_size(data: bytes, start: int, time_size: int) -> int:
    counts: tuple[int, ...] = _HEADER.unpack_from(data, start)[2:]
    utc, standard, leaps, times, types, chars = counts
    size = times * (time_size + 1) + types * 6 + chars + leaps * (time_size + 4)
    return _HEADER.size + size + standard + utc


def _year(seconds: int) -> int:
    return date.fromordinal(seconds // DAY_SEC + EPOCH_ORDINAL).year
