"""Follows a run's output to its end, as a reader: by looking at the row and the store in turn.

A follower holds neither a database connection nor a transaction while it waits, and a process has
room for a few only, so that they never take the threads that the rest of the API needs.
"""

import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial

from django.db import DatabaseError, connection

from jobs.errors import TooManyRequests
from runs import log_stream, selectors
from runs.models import Run
from runs.states import TERMINAL, RunStatus

MAX_FOLLOWERS = 8  # of the 16 threads of a web process
MAX_FOLLOW_SEC = 3600.0
LOOK_SEC = 1.0
CUT_OFF = b"\n[chrono] the log cannot be read on at the moment; ask again with its offset\n"

_places = threading.BoundedSemaphore(MAX_FOLLOWERS)


@dataclass(frozen=True, slots=True)
class Place:
    """An attempt, and where its log is."""

    attempt: int
    output_ref: str


def place_of(run: Run, attempt: int | None) -> Place | None:
    """Return where the log of that attempt, or of the latest one, is; None without such an one."""
    if run.claim_id is not None and attempt in {None, run.attempt}:
        return Place(
            run.attempt,
            run.output_ref
            or log_stream.log_prefix(run.scheduled_for, run.run_id, run.attempt, run.claim_id),
        )
    archived = {one.attempt: one for one in selectors.attempts_of(run)}
    found = archived.get(attempt if attempt is not None else max(archived, default=0))
    if found is None:
        return None
    return Place(
        found.attempt,
        found.output_ref
        or log_stream.log_prefix(
            run.scheduled_for, run.run_id, found.attempt, found.run_attempt_id
        ),
    )


def stored(place: Place | None, offset: int) -> Iterator[bytes]:
    """Yield what is written so far."""
    while place is not None and (piece := log_stream.read(place.output_ref, offset)):
        offset += len(piece)
        yield piece


def followed(run: Run, attempt: int | None, offset: int) -> Iterator[bytes]:
    """Yield an attempt's output to its end; without `attempt`, that of each until the run ends."""
    watch = Watch(run)
    yield b""  # the status and the headers go out before there is any output
    while True:
        place = watch.place(attempt)
        if place is not None:
            has_left = partial(watch.has_left, place.attempt)
            yield from log_stream.follow(place.output_ref, is_finished=has_left, offset=offset)
            offset = 0
        if attempt is not None or not watch.await_after(place.attempt if place else 0):
            return


class Watch:
    """Looks at a run's row now and then."""

    def __init__(self, run: Run) -> None:
        """Begin with the row as it was read."""
        self._run = run
        self._looked_at = time.monotonic()
        self._until = self._looked_at + MAX_FOLLOW_SEC

    def place(self, attempt: int | None) -> Place | None:
        """Return where the attempt's log is; None before there is one."""
        place = place_of(self._look(), attempt)
        _let_go()
        return place

    def has_left(self, attempt: int) -> bool:
        """Tell whether the attempt is past, or was followed for long enough."""
        run = self._look()
        is_running = run.status == RunStatus.RUNNING and run.attempt == attempt
        return not is_running or self._is_long()

    def await_after(self, attempt: int) -> bool:
        """Wait for a later attempt; False when there will be none."""
        while self._look().attempt <= attempt or self._run.claim_id is None:
            if self._run.status in TERMINAL or self._is_long():
                return False
            time.sleep(LOOK_SEC)
        return True

    def _look(self) -> Run:
        """Return the row, at most LOOK_SEC old."""
        if time.monotonic() - self._looked_at >= LOOK_SEC:
            self._run = Run.objects.get(
                run_id=self._run.run_id, scheduled_for=self._run.scheduled_for
            )
            self._looked_at = time.monotonic()
            _let_go()
        return self._run

    def _is_long(self) -> bool:
        return time.monotonic() > self._until


def _let_go() -> None:
    """Give the connection back; inside a transaction there is a caller who still needs it."""
    if not connection.in_atomic_block:
        connection.close()


class Follower(Iterator[bytes]):
    """A stream that takes one of the process's places until it ends or is closed.

    An object, not a generator: one that is never begun would not give its place back.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        """Take a place; TooManyRequests when there is none."""
        if not _places.acquire(blocking=False):
            raise TooManyRequests(
                f"This server follows {MAX_FOLLOWERS} logs already.", headers={"Retry-After": "5"}
            )
        self._pieces = pieces
        self._has_place = True
        _let_go()

    def __next__(self) -> bytes:
        """Return the next piece; what goes wrong by now can only be told in words."""
        try:
            return next(self._pieces)
        except StopIteration:
            self.close()
            raise
        except (log_stream.LogsUnavailableError, DatabaseError):
            self.close()
            self._pieces = iter(())
            return CUT_OFF

    def close(self) -> None:
        """Give the place back; called by Django when the response ends, however it does."""
        if self._has_place:
            self._has_place = False
            _places.release()
        if isinstance(self._pieces, Generator):
            self._pieces.close()
