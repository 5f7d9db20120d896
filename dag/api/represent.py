"""Edges, and what runs wait for, as the API shows them."""

from typing import Any

from dag.models import Dep, RunDep
from dag.selectors import Dag, Upstream
from dag.trigger_rules import Outcome
from jobs.fields import instant_text, optional_instant_text
from jobs.models import Job
from runs.api.represent import run_body


def dag_body(job: Job, dag: Dag) -> dict[str, Any]:
    """Return the DAG around a job."""
    return {
        "jobId": str(job.job_id),
        "logicalDate": optional_instant_text(dag.logical_date),
        "nodes": [_node(one, dag) for one in dag.jobs],
        "edges": [_edge(dep) for dep in dag.edges],
        "isComplete": dag.is_complete,
    }


def _node(job: Job, dag: Dag) -> dict[str, Any]:
    run = dag.runs.get(job.job_id)
    return {
        "jobId": str(job.job_id),
        "jobName": job.name,
        "triggerRule": job.trigger_rule,
        "enabled": job.enabled,
        "run": None if run is None else run_body(run, job.name),
    }


def _edge(dep: Dep) -> dict[str, Any]:
    return {
        "jobId": str(dep.job_id),
        "dependsOn": str(dep.depends_on_job_id),
        "match": dep.match,
        "dayOffset": dep.day_offset,
    }


def upstream_body(upstream: Upstream) -> dict[str, Any]:
    """Return one edge of a run."""
    edge: RunDep = upstream.edge
    return {
        "jobId": str(upstream.job.job_id),
        "jobName": upstream.job.name,
        "isDeleted": upstream.job.deleted_at is not None,
        "triggerRule": edge.trigger_rule,
        "match": edge.match,
        "from": instant_text(edge.span_from),
        "until": instant_text(edge.span_until),
        "expected": edge.expected,
        "outcomes": {one.value: upstream.outcomes[one] for one in Outcome},
        "runs": [run_body(run, upstream.job.name) for run in upstream.runs],
    }
