"""The outbox: rows that say what a person should know. The dedupe key makes each say it once."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from runs.floor import SQL
from runs.records import Moved


@dataclass(frozen=True, slots=True)
class NewAlert:
    """An alert to be written; owner, job and run where it concerns one."""

    kind: str
    dedupe_key: str
    message: str
    owner_id: int | None = None
    job_id: uuid.UUID | None = None
    run_id: uuid.UUID | None = None
    detail: dict[str, Any] = field(default_factory=dict)


def put(alerts: Sequence[NewAlert]) -> int:
    """Write the alerts that are not there yet; return how many were new."""
    if not alerts:
        return 0
    return SQL["insert_alerts"].run(
        kind=[alert.kind for alert in alerts],
        dedupe_key=[alert.dedupe_key for alert in alerts],
        owner=[alert.owner_id for alert in alerts],
        job_id=[alert.job_id for alert in alerts],
        run_id=[alert.run_id for alert in alerts],
        message=[alert.message for alert in alerts],
        detail=[json.dumps(alert.detail) for alert in alerts],
    )


def dead_runs(runs: Sequence[Moved]) -> None:
    """Write an alert for each run that is dead, once for each time it died."""
    put(
        [
            NewAlert(
                kind="run_dead",
                dedupe_key=f"run_dead:{run.run_id}:{run.attempt}",
                message=f"Run of {run.scheduled_for:%Y-%m-%d %H:%M:%SZ} is dead: {run.reason}",
                owner_id=run.owner,
                job_id=run.job_id,
                run_id=run.run_id,
                detail={"reason": run.reason, "attempt": run.attempt},
            )
            for run in runs
            if run.status == "dead"
        ]
    )
