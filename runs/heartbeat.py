"""The worker's heartbeat: one thread of the main process, with its own database connection.

It renews the leases of what the pool children really execute, passes on what the database wants
(cancel, or "not yours any more"), ends the attempts of dead children, and drains the worker. The
shims do not depend on it: when it stands still, they kill the executions by the age of its stamps.
"""

import logging
import os
import queue
import signal
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from django.db import DatabaseError, InterfaceError, connections

from chronoproject.process import first_line
from runs import lifecycle, slots
from runs.executors import proctree
from runs.floor import SQL
from runs.pool_child import SECOND_NS, from_us
from runs.reclaim import Reclaimer
from runs.records import Held

logger = logging.getLogger(__name__)

LOOK_SEC = 1.0  # how often cancels and dead children are looked for
SOON_SEC = 0.1
OVERRUN_SEC = 15.0  # how long killed executions may take to end before the children are killed
IDLE_EXIT_SEC = 10.0  # how long a drained child that holds nothing may take to leave by itself
T = TypeVar("T")
State = Literal["running", "draining", "stopped"]


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """What a worker says of itself in its row."""

    worker_id: str
    name: str
    hostname: str
    pid: int
    pools: tuple[str, ...]
    concurrency: int
    version: str


@dataclass(frozen=True, slots=True)
class Beat:
    """What one pass did."""

    held: int = 0
    renewed: int = 0
    lost: int = 0
    cancels: int = 0
    ended: int = 0
    is_database_away: bool = False
    next_in_sec: float = LOOK_SEC


@dataclass(frozen=True, slots=True)
class Live:
    """A held attempt in a slot, with its key in the database."""

    entry: slots.Entry
    record: slots.Record
    held: Held


class Heartbeat:
    """The thread's state and its steps."""

    def __init__(
        self,
        identity: WorkerIdentity,
        table: slots.SlotTable,
        reclaimer: Reclaimer,
        *,
        lease_sec: float,
        beat_sec: float,
        drain_sec: float,
    ) -> None:
        self.identity = identity
        self.table = table
        self.reclaimer = reclaimer
        self.lease_sec = lease_sec
        self.beat_sec = beat_sec
        self.drain_sec = drain_sec
        self.is_database_away = False
        self._renew_at = 0
        self._drain_until: int | None = None
        self._idle_since: int | None = None
        # Its put may be called from a signal handler, which an Event's set may not.
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run_forever, name="heartbeat", daemon=True)

    # --- from other threads -----------------------------------------------------------------

    def start(self) -> None:
        """Start the thread, once."""
        if not self._thread.is_alive():
            self._thread.start()

    def ring(self) -> None:
        """Wake the thread: something may have happened."""
        self._bell.put(None)

    def drain(self) -> None:
        """Claim no more; kill and give back after drain_sec what still runs then."""
        if self._drain_until is None:
            self.table.drain()
            self._drain_until = slots.boottime_ns() + int(self.drain_sec * SECOND_NS)
            self.ring()

    def stop(self, timeout_sec: float) -> None:
        """End the thread; its last pass settles what dead children left."""
        self._stop.set()
        self.ring()
        if self._thread.is_alive():
            self._thread.join(timeout_sec)

    # --- the thread -------------------------------------------------------------------------

    def _run_forever(self) -> None:
        use_own_connection(self.beat_sec)
        while not self._stop.is_set():
            beat = self.run_once()
            self._wait(beat.next_in_sec)
        self._last_pass()
        connections.close_all()

    def _wait(self, seconds: float) -> None:
        try:
            self._bell.get(timeout=seconds)
            while not self._bell.empty():
                self._bell.get_nowait()
        except queue.Empty:
            return

    def _last_pass(self) -> None:
        """Celery is done; end what its children left and say good-bye."""
        end = time.monotonic() + self.beat_sec
        while time.monotonic() < end and any(slot.child[0] for slot in self.table.slots):
            if not self.run_once().is_database_away:
                time.sleep(SOON_SEC)
        self._guarded(lambda: self._touch("stopped", 0))

    def run_once(self) -> Beat:
        """Do what is due; no database error leaves it."""
        now = slots.boottime_ns()
        is_beat = now >= self._renew_at
        reclaimed = self.reclaimer.run_once(look_for_orphans=is_beat)
        live = self._live()
        self._end_drain(live, now)
        beat = Beat(held=len(live), next_in_sec=SOON_SEC if reclaimed.is_waiting else LOOK_SEC)
        result = self._guarded(lambda: self._with_database(beat, live, is_beat=is_beat))
        self.is_database_away = result is None
        if result is None:
            return replace(beat, is_database_away=True)
        if is_beat:
            self._renew_at = now + int(self.beat_sec * SECOND_NS)
        until_beat = max(0.0, (self._renew_at - slots.boottime_ns()) / SECOND_NS)
        return replace(result, next_in_sec=min(result.next_in_sec, until_beat))

    def _with_database(self, beat: Beat, live: list[Live], *, is_beat: bool) -> Beat:
        renewed = lost = cancels = 0
        if is_beat:
            renewed, lost, cancels = self._renew(live)
        elif live:
            cancels = self._look_for_cancels(live)
        ended = len(self.reclaimer.settle())
        if is_beat:
            state: State = "running" if self._drain_until is None else "draining"
            self._touch(state, len(live))
        return replace(beat, renewed=renewed, lost=lost, cancels=cancels, ended=ended)

    def _guarded(self, step: Callable[[], T]) -> T | None:
        """Run a step; a database that is away is told, forgotten and tried again next time."""
        try:
            return step()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("heartbeat: database: %s", first_line(error))
            connections["default"].close()
            return None

    # --- steps ------------------------------------------------------------------------------

    def _live(self) -> list[Live]:
        """Return what is held: only that is renewed, a dead child's too while its tree may live."""
        return [
            Live(entry, record, replace(held_of(record), progress=entry.progress()))
            for slot in self.table.slots
            if slot.child[0]
            for entry, record in slot.held()
        ]

    def _renew(self, live: list[Live]) -> tuple[int, int, int]:
        """Renew all in one statement; stamp the good ones, end those that are not ours any more.

        The same statement carries what Python tasks tell of their progress.
        """
        sent_at = slots.boottime_ns()
        renewed = lifecycle.renew([one.held for one in live], lease_sec=self.lease_sec)
        answers = {(answer.run_id, answer.attempt): answer for answer in renewed}
        lost = cancels = 0
        for one in live:
            answer = answers.get((one.held.run_id, one.held.attempt))
            if answer is None:
                # An attempt that has just been finished is missing too; then nothing hears this.
                one.entry.ask_kill(one.record.seq, slots.CAUSE_LOST)
                lost += 1
                continue
            one.entry.renew(one.record.seq, sent_at)
            if answer.cancel_requested:
                one.entry.ask_cancel(one.record.seq)
                cancels += 1
        return len(renewed), lost, cancels

    def _look_for_cancels(self, live: list[Live]) -> int:
        """Pass on cancels between beats (PROTOCOL 17: workers look each second)."""
        instants = [one.held.scheduled_for for one in live]
        rows = SQL["cancels_asked"].rows(
            run_id=[one.held.run_id for one in live],
            claim_id=[one.held.claim_id for one in live],
            first=min(instants),
            last=max(instants),
        )
        asked = {(run_id, attempt) for run_id, attempt in rows}
        found = [one for one in live if (one.held.run_id, one.held.attempt) in asked]
        for one in found:
            one.entry.ask_cancel(one.record.seq)
        return len(found)

    def _end_drain(self, live: list[Live], now: int) -> None:
        """At the end of the drain, kill what runs; the children then give their runs back.

        A child that does not leave is killed: Celery would wait for it for ever.
        """
        if self._drain_until is None:
            return
        if live or self._idle_since is None:
            self._idle_since = now
        if now >= self._drain_until:
            for one in live:
                if one.record.phase == slots.PHASE_EXECUTING:
                    one.entry.ask_kill(one.record.seq, slots.CAUSE_DRAIN)
        is_idle = now >= self._idle_since + int(IDLE_EXIT_SEC * SECOND_NS)
        if is_idle or now >= self._drain_until + int(OVERRUN_SEC * SECOND_NS):
            for slot in self.table.slots:
                if slot.child[0] and proctree.is_alive(*slot.child):
                    proctree.send(slot.child[0], signal.SIGKILL)

    def _touch(self, state: State, running: int) -> None:
        identity = self.identity
        SQL["touch_worker"].run(
            worker_id=identity.worker_id,
            name=identity.name,
            hostname=identity.hostname,
            pid=identity.pid,
            pools=list(identity.pools),
            concurrency=identity.concurrency,
            version=identity.version,
            state=state,
            running=running,
        )


def held_of(record: slots.Record) -> Held:
    """Return the database key and fence of a slot's record."""
    return Held(
        uuid.UUID(bytes=record.run_id),
        from_us(record.scheduled_for_us),
        record.attempt,
        uuid.UUID(bytes=record.claim_id),
    )


def use_own_connection(beat_sec: float) -> None:
    """Give this thread a connection on which no statement takes longer than a beat."""
    shared = connections["default"]
    options = dict(shared.settings_dict["OPTIONS"])
    limit_ms = int(beat_sec * 1000)
    session = f"{options.get('options', '')} -c statement_timeout={limit_ms}"
    options |= {
        "options": session.strip(),
        "connect_timeout": max(2, int(beat_sec)),
        "tcp_user_timeout": limit_ms,
        "application_name": f"chrono-heartbeat-{os.getpid()}",
    }
    settings = {**shared.settings_dict, "OPTIONS": options}
    connections["default"] = type(shared)(settings, alias="default")
