"""What a pool child holds for its whole life: its slot, its shim, and the runs it has claimed."""

import contextlib
import logging
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from runs import slots
from runs.executors import proctree
from runs.executors.base import KIND_NUMBERS, Work
from runs.executors.shim_client import ShimClient, ShimError, User

logger = logging.getLogger(__name__)

SECOND_NS = 1_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SLOT_WAIT_SEC = 20.0


@dataclass(frozen=True, slots=True)
class WorkerShare:
    """What the main process prepares and every pool child inherits by fork."""

    worker_id: str
    table: slots.SlotTable
    user: User | None
    work_root: Path
    is_isolated: bool = False  # a PID namespace for each command


@dataclass(slots=True)
class Place:
    """Where a held run stands in the pool child's slot."""

    index: int
    entry: slots.Entry
    record: slots.Record


class PoolChild:
    """The slot, the shim and the held runs of this pool child."""

    def __init__(self, share: WorkerShare, slot: slots.Slot, shim: ShimClient) -> None:
        self.share = share
        self.slot = slot
        self.shim = shim
        self.places: dict[uuid.UUID, Place] = {}
        self._last_seq = 0

    @classmethod
    def enter(cls, share: WorkerShare) -> "PoolChild":
        """Take a slot and start the shim. Raises ShimError.

        Call from the main thread, before anything of a run exists in this process.
        """
        proctree.set_undumpable()
        proctree.set_subreaper(on=True)
        own = proctree.look(os.getpid())
        assert own is not None  # noqa: S101 - a process sees itself
        slot = share.table.take(own.pid, own.start)
        if slot is None:
            raise ShimError("no free slot: the dead children's are not reclaimed yet")
        shim = ShimClient(share.table, slot, share.user, is_isolated=share.is_isolated)
        return cls(share, slot, shim)

    @property
    def capacity(self) -> int:
        """Return how many runs this child may hold at once."""
        return len(self.slot.entries)

    def hold(self, works: Sequence[Work], *, claimed_at: int) -> None:
        """Enter claimed runs, so that the heartbeat renews them; `claimed_at`: the claim's send."""
        taken = {place.index for place in self.places.values()}
        free = [index for index in range(self.capacity) if index not in taken]
        for index, work in zip(free, works, strict=False):
            record = slots.Record(
                seq=self._next_seq(),
                run_id=work.run_id.bytes,
                claim_id=work.claim_id.bytes,
                scheduled_for_us=to_us(work.scheduled_for),
                attempt=work.attempt,
                kind=KIND_NUMBERS[work.kind],
                claimed_at=claimed_at,
            )
            place = Place(index, self.slot.entries[index], record)
            place.entry.write(record)
            self.places[work.run_id] = place

    def _next_seq(self) -> int:
        # Boot time makes it unique over all children that ever use the slot.
        self._last_seq = max(self._last_seq + 1, slots.boottime_ns())
        return self._last_seq

    @contextmanager
    def executing(self, work: Work) -> Iterator[Place]:
        """Mark the run as executing within the block: shim and heartbeat then enforce its end."""
        place = self.places[work.run_id]
        record = place.record
        record.phase = slots.PHASE_EXECUTING
        record.grace_ns = int(work.kill_grace_sec * SECOND_NS)
        record.deadline = slots.boottime_ns() + int(work.timeout_sec * SECOND_NS)
        place.entry.write(record)
        self.slot.set_current(place.index)
        try:
            yield place
        except (SystemExit, ShimError):
            raise  # this process ends; the main process judges by the record as it stands
        except BaseException:
            self._stop_executing(place)
            raise
        self._stop_executing(place)

    def _stop_executing(self, place: Place) -> None:
        place.record.phase = slots.PHASE_FINISHING
        place.entry.write(place.record)
        self.slot.set_current(None)

    def end_cause(self, place: Place) -> int:
        """Return why the run must not start or go on, or CAUSE_NONE."""
        now = slots.boottime_ns()
        return slots.end_cause(place.entry, place.record, now, self.share.table.fence_ns)

    def release(self, run_ids: Sequence[uuid.UUID]) -> None:
        """Forget runs whose outcome is recorded, or not ours to record."""
        for run_id in run_ids:
            place = self.places.pop(run_id, None)
            if place is not None:
                place.entry.clear()

    @contextmanager
    def directory(self, work: Work) -> Iterator[Path]:
        """Make the run's own working directory; it is gone after the block."""
        path = self.share.work_root / directory_name(work.run_id, work.attempt)
        make_directory(path)
        try:
            if self.share.user is not None:
                os.chown(path, self.share.user.uid, self.share.user.gid, follow_symlinks=False)
            yield path
        finally:
            remove_directory(path)


def directory_name(run_id: uuid.UUID, attempt: int) -> str:
    """Return the name of an attempt's working directory."""
    return f"{run_id}-{attempt}"


def make_directory(path: Path) -> None:
    """Make a working directory; its parent too, should a cleaner of old files have taken it."""
    try:
        path.mkdir(mode=0o700)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o711)
        path.mkdir(mode=0o700)


def remove_directory(path: Path) -> None:
    """Remove a working directory, whatever the command left in it."""
    with contextlib.suppress(OSError):
        path.rmdir()  # most commands leave nothing, and one call is cheap
        return
    if os.geteuid() != 0:
        take_rights_back(path)
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        logger.warning("cannot remove the working directory %s", path)


def take_rights_back(path: Path) -> None:
    """Open the folders that a command closed to its own user. Root needs none of this."""
    with contextlib.suppress(OSError):
        path.chmod(0o700)
        for folder, names, _ in os.walk(path):
            for inner in (Path(folder) / name for name in names):
                if not inner.is_symlink():
                    inner.chmod(0o700)


def to_us(instant: datetime) -> int:
    """Return an instant as whole microseconds since the epoch."""
    return (instant - EPOCH) // timedelta(microseconds=1)


def from_us(value: int) -> datetime:
    """Return the instant of `to_us`."""
    return EPOCH + timedelta(microseconds=value)


_share: WorkerShare | None = None
_current: PoolChild | None = None


def prepare(share: WorkerShare) -> None:
    """Keep what children inherit; called in the main process before the pool forks."""
    global _share
    _share = share


def start() -> None:
    """Set this pool child up; called in each child once, from its main thread."""
    global _current
    if _share is None:
        raise ShimError("no worker prepared this process: start it with manage.py worker")
    _current = PoolChild.enter(_share)


def current() -> PoolChild:
    """Return this process's pool child. Raises ShimError outside of a worker."""
    if _current is None:
        raise ShimError("not a pool child of manage.py worker")
    return _current
