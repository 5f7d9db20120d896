"""Writes of edges between jobs, with what is refused; and re-runs of all that is below a run."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from django.db import transaction

from chronoproject.sql import retrying
from dag import resolver
from dag.graph import find_cycle
from dag.models import Dep, EdgeMatch
from dag.selectors import runs_below
from dag.statements import SQL
from jobs.errors import Conflict, FieldErrors
from jobs.hooks import Edge
from jobs.models import Job
from runs import lifecycle
from runs.models import Run
from runs.records import RunRef
from runs.states import RunStatus

MAX_DRIVEN_OFFSET = 7  # rows of a driven job are made that far ahead; partitions are made for more


class Edges:
    """The edge store of jobs.hooks."""

    def set_edges(self, job: Job, edges: Sequence[Edge]) -> None:
        """Replace the job's upstream edges; FieldErrors naming dependsOn for what is wrong.

        The caller holds the team's row lock, so no other edit can close a cycle meanwhile.
        """
        check_edges(job, edges)
        check_acyclic(job, edges)
        upstreams = [edge.job_id for edge in edges]
        SQL["delete_edges"].run(job_id=job.job_id, depends_on_job_id=upstreams)
        SQL["upsert_edges"].run(
            job_id=job.job_id,
            depends_on_job_id=upstreams,
            match=[edge.match for edge in edges],
            day_offset=[edge.day_offset for edge in edges],
        )
        job.has_upstreams = bool(edges)
        Job.objects.filter(job_id=job.job_id).update(has_upstreams=job.has_upstreams)
        check_ticks(job)

    def edges_of(self, job_ids: Iterable[uuid.UUID]) -> Mapping[uuid.UUID, Sequence[Edge]]:
        """Return the upstream edges of each job that has any."""
        found: dict[uuid.UUID, list[Edge]] = defaultdict(list)
        for dep in Dep.objects.filter(job_id__in=list(job_ids)).order_by("dep_id"):
            found[dep.job_id].append(Edge(dep.depends_on_job_id, dep.match, dep.day_offset))
        return found


def check_edges(job: Job, edges: Sequence[Edge]) -> None:
    """Refuse unknown jobs and another team's, doubles, itself, and offsets that mean nothing."""
    known = set(
        Job.objects.filter(
            owner_id=job.owner_id,
            deleted_at__isnull=True,
            job_id__in=[edge.job_id for edge in edges],
        ).values_list("job_id", flat=True)
    )
    errors = []
    earlier: set[uuid.UUID] = set()
    for place, edge in enumerate(edges):
        if message := _what_is_wrong(job, edge, known, earlier):
            errors.append((f"dependsOn[{place}]", message))
        earlier.add(edge.job_id)
    if errors:
        raise FieldErrors(errors)


def _what_is_wrong(job: Job, edge: Edge, known: set[uuid.UUID], earlier: set[uuid.UUID]) -> str:
    if edge.job_id == job.job_id:
        return "is the job itself"
    if edge.job_id not in known:
        return "is not the id of a job of the team"
    if edge.job_id in earlier:
        return "names a job that is named before"
    if edge.match == EdgeMatch.TICK and edge.day_offset:
        return "has a dayOffset, which goes with match day only"
    if not is_scheduled(job) and abs(edge.day_offset) > MAX_DRIVEN_OFFSET:
        limits = f"-{MAX_DRIVEN_OFFSET} to {MAX_DRIVEN_OFFSET}"
        return f"has a dayOffset beyond {limits}, which a job without a schedule cannot have"
    return ""


def check_acyclic(job: Job, edges: Sequence[Edge]) -> None:
    """Refuse edges that lead back to the job, naming the way round."""
    upstreams: dict[uuid.UUID, list[uuid.UUID]] = defaultdict(list)
    direct = [edge.job_id for edge in edges]
    for job_id, upstream in SQL["edges_above"].rows(job_id=direct):
        upstreams[job_id].append(upstream)
    upstreams[job.job_id] = direct
    cycle = find_cycle(upstreams, job.job_id)
    if cycle is None:
        return
    names = dict(Job.objects.filter(job_id__in=cycle).values_list("job_id", "name"))
    way = " → ".join(names.get(job_id, job.name) for job_id in cycle)
    place = direct.index(cycle[1])
    raise FieldErrors([(f"dependsOn[{place}]", f"closes a cycle: {way}")])


def check_ticks(job: Job) -> None:
    """Refuse that a scheduled job, this or one below, waits for one that no schedule drives.

    Only people would trigger such an upstream: a tick could wait for it for ever (PROTOCOL 22).
    """
    rows = SQL["scheduled_without_ticks"].rows(job_id=job.job_id)
    if not rows:
        return
    job_id, name, _, upstream_name = rows[0]
    if job_id == job.job_id:
        message = f"{upstream_name!r} has no schedule, nor has any job above it; this one has"
        raise FieldErrors([("dependsOn", message)])
    message = f"is what drives {upstream_name!r}, which the scheduled job {name!r} waits for"
    raise FieldErrors([("schedule", message)])


def job_written(job: Job) -> None:
    """Follow a job's write: its schedule may be what others, or its own edges, rely on."""
    if job.deleted_at is None:
        check_ticks(job)


@retrying(savepoint=True)
def downstream_rerun(run: Run, *, actor: str, only_failed: bool = False) -> list[RunRef]:
    """Run this run and all below it again, each after its upstreams; return which.

    With `only_failed` those that succeeded stay as they are. Live ones are left alone.
    """
    below = runs_below(run)
    wanted = [one for one in [run, *below] if not only_failed or one.status != RunStatus.SUCCEEDED]
    refs = sorted(RunRef(one.run_id, one.scheduled_for) for one in wanted)
    behind = {RunRef(one.run_id, one.scheduled_for) for one in below}
    again = lifecycle.rerun(refs, behind=behind)
    if not again:
        raise Conflict("No run of these can be run again: they are live, or their jobs deleted.")
    SQL["audit_reruns"].run(
        owner=run.owner_id, actor=actor[:200], run_id=[ref.run_id for ref in again]
    )
    transaction.on_commit(partial(resolver.resolve, sorted(behind)), robust=True)
    return again


def is_scheduled(job: Job) -> bool:
    """Say whether the job has ticks of its own."""
    return job.schedule is not None or job.run_at is not None or job.every_sec is not None


edges = Edges()
