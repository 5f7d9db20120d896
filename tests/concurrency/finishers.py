"""What the processes do that finish runs at the same moment."""

import os
import uuid
from collections.abc import Sequence
from datetime import datetime
from multiprocessing.synchronize import Barrier

BARRIER_SEC = 60

Claimed = tuple[uuid.UUID, datetime, int, uuid.UUID]  # run, tick, attempt, claim


def finish_each(barrier: Barrier, claimed: Sequence[Claimed], statuses: Sequence[str]) -> None:
    """Finish run after run, each in step with the other processes."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "chronoproject.settings"
    import django

    django.setup()
    from runs import lifecycle
    from runs.records import Result

    for (run_id, scheduled_for, attempt, claim_id), status in zip(claimed, statuses, strict=True):
        outcome = "succeeded" if status == "succeeded" else "failed"
        result = Result(run_id, scheduled_for, attempt, claim_id, outcome, status)  # type: ignore[arg-type]
        barrier.wait(BARRIER_SEC)
        assert lifecycle.finish([result])
