"""What the worker's main process does about pool children that died (OOM, kill -9, a time limit).

It waits until nothing of the dead child's run is left, kills what was orphaned to it, and then ends
the attempt: by the verdict the shim wrote before it killed the child, else as crashed.
"""

import contextlib
import logging
import os
import signal
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from runs import lifecycle, slots
from runs.executors import proctree
from runs.floor import SQL
from runs.log_stream import log_prefix
from runs.pool_child import directory_name, from_us, remove_directory
from runs.records import Held, Moved, Result

logger = logging.getLogger(__name__)

SHIM_FILE = b"executors/shim.py"
STUCK_NS = 5_000_000_000  # how long a shim may take for what it should do at once
LOSE_REASONS = {
    slots.CAUSE_NONE: "crashed",
    slots.CAUSE_FENCED: "worker_lost",
    slots.CAUSE_LOST: "worker_lost",
    slots.CAUSE_DRAIN: "drain",
    slots.CAUSE_UNSTARTED: "put_back",
}
ERRORS = {
    slots.CAUSE_TIMEOUT: "timed out, and did not end within its grace",
    slots.CAUSE_CANCEL: "cancelled, and did not end within its grace",
}


@dataclass(frozen=True, slots=True)
class DeadAttempt:
    """An attempt whose pool child is gone, with what its slot told."""

    held: Held
    cause: int
    retry_in_sec: float
    output_ref: str


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What one pass found."""

    freed: int = 0
    orphans: int = 0
    is_waiting: bool = False  # something of a dead child still lives: look again soon


class Reclaimer:
    """Finds dead pool children and ends what they held."""

    def __init__(
        self, table: slots.SlotTable, work_root: Path, pool_pids: Callable[[], Collection[int]]
    ) -> None:
        self.table = table
        self.work_root = work_root
        self.pool_pids = pool_pids
        self.owed: list[DeadAttempt] = []
        self._main_session = os.getsid(0)
        self._suspects: set[tuple[int, int]] = set()
        self._owed_by_shim: dict[tuple[int, int], int] = {}  # slot and attempt: since when

    # --- processes: no database ----------------------------------------------------------------

    def run_once(self, *, look_for_orphans: bool = False) -> Reclaimed:
        """Look at every slot once; what has to be recorded is added to `owed`."""
        self._kill_stuck_shims()
        dead = [slot for slot in self.table.slots if self._is_dead(slot)]
        orphans = self.kill_orphans() if dead or look_for_orphans else 0
        gone = [slot for slot in dead if self._shim_is_gone(slot)]
        is_waiting = orphans > 0 or len(gone) < len(dead)
        if orphans == 0:
            for slot in gone:
                self._collect(slot)
        return Reclaimed(0 if orphans else len(gone), orphans, is_waiting)

    def _is_dead(self, slot: slots.Slot) -> bool:
        pid, start = slot.child
        if pid == 0:
            return False
        if not proctree.is_alive(pid, start):
            return True
        if slot.shim[0] and self._shim_is_gone(slot):
            # Nobody watches over this child any more; it cannot go on.
            logger.warning("the process shim of pool child %d is gone, so the child goes too", pid)
            proctree.send(pid, signal.SIGKILL)
        return False

    def _kill_stuck_shims(self) -> None:
        """Kill a shim that does not end what it should have, stopped by a signal for instance.

        Its tree then comes to the pool child and to this process, which end it.
        """
        now = slots.boottime_ns()
        owed: dict[tuple[int, int], int] = {}
        for slot in self.table.slots:
            if not (slot.child[0] and slot.shim[0]):
                continue
            for seq, grace_ns in self._owes(slot, now):
                since = owed[slot.index, seq] = self._owed_by_shim.get((slot.index, seq), now)
                if now - since > STUCK_NS + grace_ns and not self._shim_is_gone(slot):
                    logger.error(
                        "process shim %d does nothing any more; it is killed", slot.shim[0]
                    )
                    proctree.send(slot.shim[0], signal.SIGKILL)
        self._owed_by_shim = owed

    def _owes(self, slot: slots.Slot, now: int) -> Iterator[tuple[int, int]]:
        """Yield (attempt's seq, nanoseconds of grace) of what the shim should be ending."""
        if not proctree.is_alive(*slot.child):
            yield 0, 0
            return
        for entry, record in slot.held():
            if record.phase == slots.PHASE_EXECUTING:
                cause = slots.end_cause(entry, record, now, self.table.fence_ns)
                if cause:
                    yield record.seq, 0 if cause in slots.AT_ONCE else record.grace_ns

    def _shim_is_gone(self, slot: slots.Slot) -> bool:
        pid, start = slot.shim
        if pid == 0:
            return True
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        return not proctree.is_alive(pid, start)

    def _collect(self, slot: slots.Slot) -> None:
        """Note what the dead child held and free its slot."""
        now = slots.boottime_ns()
        for entry, record in slot.held():
            attempt = dead_attempt(entry, record, now, is_draining=self.table.draining)
            self.owed.append(attempt)
            name = directory_name(attempt.held.run_id, attempt.held.attempt)
            remove_directory_if_any(self.work_root / name)
            logger.warning(
                "run %s: its pool child %d died (%s)",
                attempt.held.run_id,
                slot.child[0],
                LOSE_REASONS.get(attempt.cause) or ERRORS[attempt.cause],
            )
        slot.free()

    def kill_orphans(self) -> int:
        """Kill processes that were handed to this one as second subreaper; return how many live.

        A pool child that was forked a moment ago may not be listed yet, so a process of this
        session is killed only when it is seen a second time.
        """
        pool = set(self.pool_pids())
        living = 0
        suspects: set[tuple[int, int]] = set()
        for process in proctree.descendants(os.getpid()):
            if process.parent != os.getpid() or process.pid in pool or is_shim(process.pid):
                continue
            key = (process.pid, process.start)
            suspects.add(key)
            living += 1
            if process.session != self._main_session or key in self._suspects:
                logger.warning("killing process %d, which outlived its run", process.pid)
                proctree.kill(process.pid)
                proctree.send(process.pid, signal.SIGKILL)
        self._reap(pool)
        self._suspects = suspects
        return living

    def _reap(self, pool: Collection[int]) -> None:
        """Collect dead orphans and shims, but never Celery's own children."""
        for process in proctree.all_processes():
            is_ours = process.parent == os.getpid() and process.is_dead
            if is_ours and process.pid not in pool and self._is_known(process):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)

    def _is_known(self, process: proctree.Process) -> bool:
        key = (process.pid, process.start)
        return process.session != self._main_session or key in self._suspects

    # --- the database ---------------------------------------------------------------------------

    def settle(self) -> list[Moved]:
        """Record what is owed; raises the database's errors and then still owes the rest."""
        moved: list[Moved] = []
        while self.owed:
            moved += record(self.owed[0])
            self.owed.pop(0)
        return moved


def dead_attempt(
    entry: slots.Entry, record: slots.Record, now: int, *, is_draining: bool
) -> DeadAttempt:
    """Return what the slot tells of an attempt whose pool child is dead."""
    held = Held(
        uuid.UUID(bytes=record.run_id),
        from_us(record.scheduled_for_us),
        record.attempt,
        uuid.UUID(bytes=record.claim_id),
        progress=entry.progress(),
    )
    cause = entry.verdict(record.seq) or entry.kill_asked(record.seq)
    if cause == slots.CAUSE_NONE:
        if record.phase == slots.PHASE_HELD:
            cause = slots.CAUSE_UNSTARTED
        elif is_draining:
            cause = slots.CAUSE_DRAIN
        elif record.phase == slots.PHASE_EXECUTING and now >= record.deadline:
            cause = slots.CAUSE_TIMEOUT  # Celery's hard limit, the third line
    prefix = log_prefix(held.scheduled_for, held.run_id, held.attempt, held.claim_id)
    return DeadAttempt(held, cause, record.timeout_retry_in, prefix if entry.is_stored() else "")


def record(dead: DeadAttempt) -> list[Moved]:
    """Write down how the attempt ended."""
    if dead.cause in LOSE_REASONS:
        return lifecycle.lose([dead.held], reason=LOSE_REASONS[dead.cause])
    held = dead.held
    is_timeout = dead.cause == slots.CAUSE_TIMEOUT
    is_retried = is_timeout and dead.retry_in_sec >= 0
    limit_key = SQL["limit_keys_of"].value(
        run_id=[held.run_id], first=held.scheduled_for, last=held.scheduled_for
    )
    return lifecycle.finish(
        [
            Result(
                run_id=held.run_id,
                scheduled_for=held.scheduled_for,
                attempt=held.attempt,
                claim_id=held.claim_id,
                outcome="timeout" if is_timeout else "cancelled",
                status="retrying" if is_retried else "dead" if is_timeout else "cancelled",
                reason="timeout" if is_timeout else "user",
                retry_in_sec=dead.retry_in_sec if is_retried else None,
                error=ERRORS[dead.cause],
                output_ref=dead.output_ref,
                limit_key=limit_key,
                progress=held.progress,
            )
        ]
    )


def remove_directory_if_any(path: Path) -> None:
    """Remove a working directory that its dead pool child could not."""
    if path.exists():
        remove_directory(path)


def is_shim(pid: int) -> bool:
    """Say whether a process is a process shim, whose own business it is when to go."""
    try:
        return SHIM_FILE in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
