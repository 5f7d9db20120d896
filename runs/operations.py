"""Large operations that the console hands to Celery: their outcome is kept, unlike a run's."""

import uuid
from collections.abc import Sequence
from functools import partial

from celery import shared_task
from celery.result import AsyncResult

from runs import services

QUEUE = "chrono.operations"
kept = partial(shared_task, ignore_result=False)


def _ids(texts: Sequence[str]) -> list[uuid.UUID]:
    return [uuid.UUID(text) for text in texts]


@kept(name="chrono.operations.trigger_jobs")  # type: ignore[untyped-decorator]
def trigger_jobs(job_ids: Sequence[str], actor: str) -> dict[str, int]:
    """Make a run of each job."""
    return {"asked": len(job_ids), "done": services.jobs_trigger(_ids(job_ids), actor=actor)}


@kept(name="chrono.operations.cancel_runs")  # type: ignore[untyped-decorator]
def cancel_runs(run_ids: Sequence[str], actor: str) -> dict[str, int]:
    """Cancel each run."""
    return {"asked": len(run_ids), "done": services.runs_cancel(_ids(run_ids), actor=actor)}


@kept(name="chrono.operations.rerun_runs")  # type: ignore[untyped-decorator]
def rerun_runs(run_ids: Sequence[str], actor: str) -> dict[str, int]:
    """Run each run again."""
    return {"asked": len(run_ids), "done": services.runs_rerun(_ids(run_ids), actor=actor)}


OPERATIONS = {"trigger": trigger_jobs, "cancel": cancel_runs, "rerun": rerun_runs}


def hand_over(action: str, ids: Sequence[uuid.UUID], actor: str) -> AsyncResult:
    """Send a large operation (a key of OPERATIONS) to the workers; return its handle."""
    texts = [str(one) for one in ids]
    return OPERATIONS[action].apply_async(args=[texts, actor], queue=QUEUE)
