"""A pool child's place without its processes, for executors that run in the calling process."""

import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from runs import slots
from runs.executors.base import Kind, Work
from runs.executors.shim_client import ShimClient
from runs.pool_child import PoolChild, WorkerShare

SECOND_NS = 1_000_000_000
TICK = datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)


class KeptLog:
    """A log that is only kept."""

    def __init__(self) -> None:
        self.data = b""

    @property
    def text(self) -> str:
        return self.data.decode()

    def write(self, data: bytes) -> None:
        self.data += data

    def flush_due_in(self) -> float | None:
        return None

    def flush(self) -> None:
        pass


def local_child(folder: Path, fence_sec: float = 20) -> PoolChild:
    """Return a pool child that has a slot and no shim."""
    table = slots.SlotTable.create(slots=1, entries=4, fence_ns=int(fence_sec * SECOND_NS))
    share = WorkerShare("test", table, None, folder)
    return PoolChild(share, table.slots[0], cast("ShimClient", None))


def held_work(child: PoolChild, kind: Kind, payload: dict[str, Any], **values: Any) -> Work:  # noqa: ANN401
    """Return work that the child holds."""
    work = Work(
        run_id=uuid.uuid4(),
        job_id=uuid.uuid4(),
        scheduled_for=TICK,
        logical_date=TICK,
        attempt=2,
        claim_id=uuid.uuid4(),
        kind=kind,
        payload=payload,
        **{"timeout_sec": 10, **values},
    )
    child.hold([work], claimed_at=slots.boottime_ns())
    return work
