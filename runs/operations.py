"""Large operations that the console hands to Celery: their outcome is kept, unlike a run's."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from celery import shared_task
from celery.result import AsyncResult
from kombu.exceptions import OperationalError

from jobs.errors import Unavailable
from runs import backfill, services

QUEUE = "chrono.operations"
kept = partial(shared_task, ignore_result=False, track_started=True)


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


@kept(name="chrono.operations.backfill_job")  # type: ignore[untyped-decorator]
def backfill_job(job_id: str, since: str, before: str, actor: str) -> dict[str, int]:
    """Make the runs of a large backfill; asked again, it makes what is left."""
    start, end = datetime.fromisoformat(since), datetime.fromisoformat(before)
    return backfill.backfill_all(uuid.UUID(job_id), start, end, actor=actor)


OPERATIONS = {"trigger": trigger_jobs, "cancel": cancel_runs, "rerun": rerun_runs}


def hand_over(action: str, ids: Sequence[uuid.UUID], actor: str) -> AsyncResult:
    """Send a large operation (a key of OPERATIONS) to the workers; return its handle."""
    texts = [str(one) for one in ids]
    return OPERATIONS[action].apply_async(args=[texts, actor], queue=QUEUE)


def hand_over_backfill(plan: backfill.Plan, actor: str) -> str:
    """Send a large backfill to the workers; return its id; Unavailable."""
    span = [plan.since.isoformat(), plan.before.isoformat()]
    try:
        handle = backfill_job.apply_async(args=[str(plan.job.job_id), *span, actor], queue=QUEUE)
    except OperationalError as error:
        raise Unavailable("The queue for large operations does not answer; try again.") from error
    return str(handle.id)
