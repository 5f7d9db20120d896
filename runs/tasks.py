"""The Celery task of the job queues. A message is a hint: run ids and ticks."""

import uuid
from collections.abc import Sequence
from datetime import datetime

from celery import shared_task

from runs import execution
from runs.publisher import TASK_NAME
from runs.records import RunRef


@shared_task(name=TASK_NAME, ignore_result=True)  # type: ignore[untyped-decorator]
def execute_runs(refs: Sequence[Sequence[str]]) -> None:
    """Try to claim and execute the runs that a message names."""
    execution.execute([RunRef(uuid.UUID(run), datetime.fromisoformat(tick)) for run, tick in refs])
