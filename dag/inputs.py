"""What the upstreams of a run left: their runs and stored outputs, given to it when it starts."""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from dag.models import EdgeMatch
from dag.statements import SQL
from jobs.fields import instant_text
from runs.records import RunRef

MAX_RUNS = 5000  # of all upstreams together, newest first
MAX_OUTPUT_BYTES = 1024 * 1024  # likewise


def inputs_of(ref: RunRef) -> dict[str, Any]:
    """Return what each upstream of the run came to, by the upstream's name.

    The edges are those that the run was born with. Of two upstreams of one name, of which the one
    has been deleted, that one stands under its id.
    """
    ((first, last),) = SQL["bounds_of_edges"].rows(run_id=ref.run_id)
    if first is None:
        return {}
    rows = SQL["read_inputs"].dicts(
        run_id=ref.run_id,
        first=first,
        last=last,
        runs=MAX_RUNS,
        output_bytes=MAX_OUTPUT_BYTES,
    )
    inputs: dict[str, Any] = {}
    for job_id, group in itertools.groupby(rows, key=lambda row: row["job_id"]):
        of_edge = list(group)
        name = of_edge[0]["name"]
        inputs[str(job_id) if name in inputs else name] = _edge_body(of_edge)
    return inputs


def _edge_body(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the run of a tick edge, or the runs of a day edge, oldest tick first."""
    job_id = {"jobId": str(rows[0]["job_id"])}
    if rows[0]["match"] == EdgeMatch.TICK:
        return {**job_id, **_run_body(rows[0])}
    runs = [_run_body(row) for row in rows if row["run_id"] is not None]
    omitted = (rows[0]["runs"] or 0) - len(runs)
    return {**job_id, "runs": runs} | ({"omittedRuns": omitted} if omitted else {})


def _run_body(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run as the API names its fields; all null where a tick became no run."""
    if row["run_id"] is None:
        return dict.fromkeys(("id", "status", "scheduledFor", "logicalDate", "output"))
    body = {
        "id": str(row["run_id"]),
        "status": row["status"],
        "scheduledFor": instant_text(row["scheduled_for"]),
        "logicalDate": instant_text(row["logical_date"]),
        "output": None if row["output"] is None else json.loads(row["output"]),
    }
    is_omitted = row["bytes"] is not None and row["output"] is None
    return body | ({"omittedBytes": row["bytes"]} if is_omitted else {})
