"""One job's schedule as a value: a cron expression, one instant, an interval, or nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from jobs.cron import DST_POLICIES, DstPolicy, InvalidSchedule, NeverFires, evaluator_for
from jobs.cron.evaluator import Evaluator
from jobs.cron.second_opinion import check_second_opinion
from jobs.cron.ticks import to_datetime, to_seconds
from jobs.cron.zones import FIRST_SEC, load_zone

MAX_EVERY_SEC = 1_000_000_000  # over 31 years
_LAST = to_seconds(datetime.max.replace(tzinfo=UTC))


class _Source(Protocol):
    """Where ticks come from (an Evaluator, for one), in whole seconds since 1970."""

    def next(self, after: int) -> int | None: ...

    def count(self, after: int, until: int) -> int: ...


@dataclass(frozen=True, slots=True)
class _Once:
    instant: int

    def next(self, after: int) -> int | None:
        return self.instant if after < self.instant else None

    def count(self, after: int, until: int) -> int:
        return 1 if after < self.instant <= until else 0


@dataclass(frozen=True, slots=True)
class _Interval:
    """anchor + k·every for every whole k, negative ones too: the anchor sets the phase only."""

    every: int
    anchor: int

    def next(self, after: int) -> int | None:
        return after + self.every - (after - self.anchor) % self.every

    def count(self, after: int, until: int) -> int:
        return (until - self.anchor) // self.every - (after - self.anchor) // self.every


class _Never:
    def next(self, after: int) -> int | None:
        return None

    def count(self, after: int, until: int) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a job's ticks are. Equal values share their evaluation, so it is cheap to make.

    Ticks are whole seconds: fractions of run_at and anchor are cut off. starts_at and ends_at bound
    the ticks of any kind, both inclusive.
    """

    timezone: str = "UTC"
    cron: str | None = None
    run_at: datetime | None = None
    every_sec: int | None = None
    anchor: datetime | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    dst_policy: DstPolicy = "vixie"
    hash_id: str = ""

    def next_after(self, after: datetime) -> datetime | None:
        """The first tick strictly after `after`; None if there is no more."""
        found = self._next(self._source(), to_seconds(after))
        return None if found is None else to_datetime(found)

    def ticks(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The ticks with after < tick <= until, oldest first."""
        source, instant, end = self._source(), to_seconds(after), to_seconds(until)
        while (found := self._next(source, instant)) is not None and found <= end:
            yield to_datetime(found)
            instant = found

    def count(self, after: datetime, until: datetime) -> int:
        """How many ticks there are with after < tick <= until, without visiting them."""
        low, high = self._bounds(to_seconds(after), to_seconds(until))
        return self._source().count(low, high) if low < high else 0

    def newest(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The last `limit` of the ticks with after < tick <= until, oldest first."""
        source = self._source()
        low, high = self._bounds(to_seconds(after), to_seconds(until))
        if low >= high or limit < 1:
            return []
        start, end = low, high
        while start < end:  # the earliest start that leaves at most `limit` ticks
            middle = (start + end) // 2
            if source.count(middle, high) <= limit:
                end = middle
            else:
                start = middle + 1
        return list(self.ticks(to_datetime(start), to_datetime(high)))

    def gap_ticks(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """What dst_policy "skip" left out: the ends of gaps at which a tick would have run."""
        source = self._source()
        low, high = self._bounds(to_seconds(after), to_seconds(until))
        if isinstance(source, Evaluator) and low < high:
            yield from map(to_datetime, source.gap_ticks(low, high))

    def validate(self, after: datetime | None = None) -> None:
        """Raise InvalidSchedule for what is wrong; NeverFires if there is no tick later than
        `after` (without it, if the schedule could never have had one)."""
        if sum(kind is not None for kind in (self.cron, self.run_at, self.every_sec)) > 1:
            raise InvalidSchedule("a schedule is one of cron, runAt and everySec, not several")
        load_zone(self.timezone)
        if self.dst_policy not in DST_POLICIES:
            raise InvalidSchedule("dstPolicy is unknown; use vixie or skip", field="dstPolicy")
        self._validate_instants()
        if self.every_sec is not None and not 1 <= self.every_sec <= MAX_EVERY_SEC:
            raise InvalidSchedule(
                f"everySec is {self.every_sec}; use 1 to {MAX_EVERY_SEC}", field="everySec"
            )
        self._validate_ticks(after)

    def _validate_instants(self) -> None:
        for field, instant in (
            ("runAt", self.run_at),
            ("anchor", self.anchor),
            ("startsAt", self.starts_at),
            ("endsAt", self.ends_at),
        ):
            if instant is not None and instant.tzinfo is None:
                raise InvalidSchedule(
                    f"{field} has no offset; add Z or one such as +02:00", field=field
                )
        if self.anchor is not None and self.every_sec is None:
            raise InvalidSchedule("anchor is for everySec only; remove it", field="anchor")
        if self.starts_at and self.ends_at and self.ends_at < self.starts_at:
            raise InvalidSchedule("endsAt is before startsAt; make it later", field="endsAt")

    def _validate_ticks(self, after: datetime | None) -> None:
        source = self._source()  # raises for what is wrong with the expression
        if isinstance(source, _Never):
            return
        if self.cron is not None:
            check_second_opinion(self.cron, self.hash_id or None)
        if after is not None:
            start = to_seconds(after)
        else:
            start = _round_up(self.starts_at) - 1 if self.starts_at else FIRST_SEC
        if self._next(source, start) is not None:
            return
        raise self._without_tick(after)

    def _without_tick(self, after: datetime | None) -> NeverFires:
        if self.run_at is not None:
            what, field = f"runAt {self.run_at.isoformat()}", "runAt"
        else:
            what, field = "every tick", "endsAt" if self.ends_at else "schedule"
        bounds = [
            f"{relation} {bound.isoformat()}"
            for relation, bound in (
                ("not after", after),
                ("before startsAt", self.starts_at),
                ("after endsAt", self.ends_at),
            )
            if bound is not None
        ]
        return NeverFires(
            f"the schedule has no tick: {what} is {' or '.join(bounds) or 'skipped by its zone'}",
            field=field,
        )

    def _source(self) -> _Source:
        if self.cron is not None:
            return evaluator_for(self.cron, self.timezone, self.hash_id or None, self.dst_policy)
        if self.run_at is not None:
            return _Once(to_seconds(self.run_at))
        if self.every_sec is not None:
            anchor = self.anchor or self.starts_at
            return _Interval(self.every_sec, to_seconds(anchor) if anchor else 0)
        return _Never()

    def _next(self, source: _Source, after: int) -> int | None:
        if self.starts_at is not None:
            after = max(after, _round_up(self.starts_at) - 1)
        found = source.next(after)
        end = _LAST if self.ends_at is None else to_seconds(self.ends_at)
        return found if found is not None and found <= end else None

    def _bounds(self, after: int, until: int) -> tuple[int, int]:
        if self.starts_at is not None:
            after = max(after, _round_up(self.starts_at) - 1)
        if self.ends_at is not None:
            until = min(until, to_seconds(self.ends_at))
        return after, until


def _round_up(instant: datetime) -> int:
    return to_seconds(instant) + (instant.microsecond > 0)
