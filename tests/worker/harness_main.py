"""A worker's main process and its pool children, without Celery and database.

Started by tests as a program: `python -m tests.worker.harness_main '<plan as JSON>'`. It tells what
happens in JSON lines and lives until its standard input ends.
"""

import json
import os
import select
import sys
import tempfile
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runs import pool_child, slots
from runs.executors import interrupt, proctree
from runs.executors.base import Executor, Kind, Work
from runs.executors.command import CommandExecutor
from runs.executors.shim_client import ShimError, User
from runs.executors.task import TaskExecutor
from runs.reclaim import Reclaimer

SECOND_NS = 1_000_000_000
NOBODY = User(65534, 65534)
TICK = datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)


class MemoryLog:
    """A log that is only kept."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    def flush_due_in(self) -> float | None:
        return None

    def flush(self) -> None:
        pass


def tell(**event: Any) -> None:  # noqa: ANN401 - JSON values
    """Write an event for the test, in one piece."""
    os.write(1, json.dumps(event).encode() + b"\n")


def work_of(plan: dict[str, Any]) -> Work:
    """Return the work that a plan describes."""
    kind: Kind = plan.get("kind", "command")
    return Work(
        run_id=uuid.UUID(plan["run_id"]) if "run_id" in plan else uuid.uuid4(),
        job_id=uuid.uuid4(),
        scheduled_for=TICK,
        logical_date=TICK,
        attempt=plan.get("attempt", 1),
        claim_id=uuid.uuid4(),
        kind=kind,
        payload=plan["payload"],
        env=plan.get("env", {}),
        timeout_sec=plan.get("timeout_sec", 60),
        kill_grace_sec=plan.get("grace_sec", 0.5),
        inputs=plan.get("inputs"),
    )


def be_child(share: pool_child.WorkerShare, number: int, plans: list[dict[str, Any]]) -> None:
    """Execute the plans one after the other, as a pool child does."""
    pool_child.prepare(share)
    pool_child.start()
    child = pool_child.current()
    tell(event="child", child=number, pid=os.getpid(), shim=child.shim.pid)
    executors: dict[str, Executor] = {
        "command": CommandExecutor(child),
        "task": TaskExecutor(child),
    }
    for plan in plans:
        interrupt.install()
        work = work_of(plan)
        log = MemoryLog()
        child.hold([work], claimed_at=slots.boottime_ns() - int(plan.get("age_sec", 0) * SECOND_NS))
        try:
            outcome = executors[work.kind].execute(work, log)
        except ShimError as error:
            tell(event="shim_error", child=number, error=str(error))
            os._exit(70)
        child.release([work.run_id])
        tell(
            event="outcome",
            child=number,
            result=outcome.result,
            reason=outcome.reason,
            exit_code=outcome.exit_code,
            error=outcome.error,
            output=outcome.output,
            log=log.data.decode(errors="replace"),
            run_id=str(work.run_id),
        )
    tell(event="idle", child=number)
    select.select([0], [], [])


def main(plan: dict[str, Any]) -> None:
    """Prepare as a worker does, fork the pool children, and reclaim until standard input ends."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chronoproject.settings")
    proctree.set_subreaper(on=True)
    fence_ns = int(plan.get("fence_sec", 20) * SECOND_NS)
    table = slots.SlotTable.create(slots=2 * len(plan["children"]), entries=4, fence_ns=fence_ns)
    root = Path(tempfile.mkdtemp(prefix="chrono-test-work-"))
    root.chmod(0o711)
    user = NOBODY if os.geteuid() == 0 else None
    is_isolated = plan.get("is_isolated", False)
    share = pool_child.WorkerShare("test", table, user, root, is_isolated)
    pids = []
    for number, plans in enumerate(plan["children"]):
        pids.append(os.fork())
        if pids[-1] == 0:
            proctree.set_parent_death_signal(9)
            be_child(share, number, plans)
            os._exit(0)
    tell(event="main", pid=os.getpid(), table_fd=table.fd, work_root=str(root))
    reclaimer = Reclaimer(table, root, lambda: pids)
    while not select.select([0], [], [], 0.05)[0]:
        if plan.get("reclaim"):
            reclaimer.run_once(look_for_orphans=True)
        for owed in reclaimer.owed:
            tell(event="owed", cause=owed.cause, run_id=str(owed.held.run_id))
        reclaimer.owed.clear()
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
