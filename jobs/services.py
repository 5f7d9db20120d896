"""Every write of a job: its row, its version, what must be settled first and what follows.

Each keeps PROTOCOL 2: lock the row, take `at` from the clock after the lock, settle the version in
force up to `at`, then let the new one begin there. Locks: team (edges only), then the job, then its
due state.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import IntegrityError

from chronoproject import bell
from chronoproject.clock import db_now
from chronoproject.sql import retrying
from jobs.choices import Change, JobKind
from jobs.cron import TZDATA_VERSION, InvalidSchedule
from jobs.definition import (
    Definition,
    api_form,
    assign,
    clean,
    definition_of,
    edges_in,
    schedule_error,
)
from jobs.errors import DuplicateName, FieldErrors, PreconditionFailed, job_not_found
from jobs.fields import instant_text
from jobs.hooks import hooks
from jobs.models import Job, JobNext, JobVersion, Team
from jobs.selectors import edges_of, schedule_of

NAME_CONSTRAINT = "jobs_name_once_per_owner"
INSTANT = timedelta(microseconds=1)


class _TeamLockNeeded(Exception):  # noqa: N818 - a signal between two tries, never seen outside
    """The edit turned out to change edges, which takes the team's lock first (PROTOCOL 8)."""


@dataclass(frozen=True, slots=True)
class _Edit:
    """One change of one job: what it becomes, who says so, and on which version."""

    job_id: uuid.UUID
    team_id: int
    actor: str
    change: Change
    build: Callable[[Definition], Definition]
    if_match: Callable[[int], bool] | None = None
    pause_reason: str = ""


def job_create(team: Team, body: Any, *, actor: str) -> Job:  # noqa: ANN401 - any JSON value
    """Make a job of what a client wrote; FieldErrors, DuplicateName."""
    definition = clean(body, owner=team.slug)
    _check_task(definition)
    return _create(team, definition, actor)


@retrying(savepoint=True)
def _create(team: Team, definition: Definition, actor: str) -> Job:
    if definition["dependsOn"]:
        _lock_team(team.team_id)
    at = db_now()
    job = Job(owner=team, created_at=at, updated_at=at)
    _check_run_at(definition, None, at)
    _write(job, definition, at, is_new=True)
    _open_version(job, definition, Change.CREATE, actor, at)
    _set_edges(job, definition)
    _tell_written(job)
    return job


def job_replace(
    job_id: uuid.UUID,
    team: Team,
    body: Any,  # noqa: ANN401 - any JSON value
    *,
    actor: str,
    if_match: Callable[[int], bool] | None = None,
) -> Job:
    """Replace the whole definition; FieldErrors, NotFound, PreconditionFailed, DuplicateName.

    A pause stays unless the body says otherwise: whoever deploys does not resume by leaving out.
    """
    definition = clean(body, owner=team.slug)

    def replaced(before: Definition) -> Definition:
        return definition if "enabled" in body else definition | {"enabled": before["enabled"]}

    edit = _Edit(job_id, team.team_id, actor, Change.UPDATE, replaced, if_match)
    return _edit(edit, with_team_lock=bool(definition["dependsOn"]))


def job_patch(
    job_id: uuid.UUID,
    team: Team,
    body: Any,  # noqa: ANN401 - any JSON value
    *,
    actor: str,
    if_match: Callable[[int], bool] | None = None,
) -> Job:
    """Replace the top-level fields that are given; otherwise as job_replace."""
    if not isinstance(body, dict):
        raise FieldErrors([("body", "must be a JSON object")])

    def merged(definition: Definition) -> Definition:
        return clean(_merge(api_form(definition), body), owner=team.slug)

    edit = _Edit(job_id, team.team_id, actor, Change.UPDATE, merged, if_match)
    return _edit(edit, with_team_lock="dependsOn" in body)


def job_pause(
    job: Job, *, actor: str, reason: str = "", if_match: Callable[[int], bool] | None = None
) -> Job:
    """Stop the job's ticks; runs that exist go on. A paused job stays as it is."""
    edit = _Edit(
        job.job_id,
        job.owner_id,
        actor,
        Change.PAUSE,
        lambda definition: definition | {"enabled": False},
        if_match,
        pause_reason=reason,
    )
    return _edit(edit)


def job_resume(job: Job, *, actor: str, if_match: Callable[[int], bool] | None = None) -> Job:
    """Start the job's ticks again with the first one after now. A running one stays as it is."""
    edit = _Edit(
        job.job_id,
        job.owner_id,
        actor,
        Change.RESUME,
        lambda definition: definition | {"enabled": True},
        if_match,
    )
    return _edit(edit)


@retrying(savepoint=True)
def job_delete(job: Job, *, actor: str, if_match: Callable[[int], bool] | None = None) -> Job:
    """End the job: no more ticks, what has not started is cancelled, its name is free."""
    locked = _locked(job.job_id, job.owner_id)
    _check_version(locked, if_match)
    at = _instant_of_edit(locked)
    _settle(locked, at)
    definition = definition_of(locked, edges_of([locked]).get(locked.job_id, ()))
    definition["enabled"] = locked.enabled = False
    locked.deleted_at = locked.updated_at = at
    locked.version += 1
    locked.save(force_update=True)
    locked.next.next_run_at = locked.next.retry_at = None
    locked.next.save(force_update=True)
    _open_version(locked, definition, Change.DELETE, actor, at)
    if hooks.cancel_unstarted is not None:
        hooks.cancel_unstarted(locked)
    _tell_written(locked)
    return locked


def job_reschedule(job: Job, at: datetime, *, actor: str) -> None:
    """Let a version of the system begin at `at`: the same definition, its next tick found anew.

    The caller holds the row's lock, has read job.next since, and has settled what was due.
    """
    definition = definition_of(job, edges_of([job]).get(job.job_id, ()))
    job.version += 1
    job.updated_at = at
    _write(job, definition, at)
    _open_version(job, definition, Change.SYSTEM, actor, at)
    _tell_written(job)


def _edit(edit: _Edit, *, with_team_lock: bool = False) -> Job:
    try:
        return _edit_once(edit, with_team_lock)
    except _TeamLockNeeded:
        return _edit(edit, with_team_lock=True)


@retrying(savepoint=True)
def _edit_once(edit: _Edit, with_team_lock: bool) -> Job:
    if with_team_lock:
        _lock_team(edit.team_id)
    job = _locked(edit.job_id, edit.team_id)
    _check_version(job, edit.if_match)
    at = _instant_of_edit(job)
    before = definition_of(job, edges_of([job]).get(job.job_id, ()))
    after = _anchored(edit.build(before), job.created_at)
    if after == before:
        return job
    has_new_edges = after["dependsOn"] != before["dependsOn"]
    if has_new_edges and not with_team_lock:
        raise _TeamLockNeeded
    _check_run_at(after, before, at)
    if after["payload"] != before["payload"]:
        _check_task(after)
    _settle(job, at)
    _apply(job, edit, after, at)
    if has_new_edges:
        _set_edges(job, after)
    _tell_written(job)
    return job


def _apply(job: Job, edit: _Edit, definition: Definition, at: datetime) -> None:
    job.version += 1
    job.updated_at = at
    # an edit may be what mends a quarantined job: let the dispatcher try it anew
    job.next.retry_at, job.next.quarantine_reason = None, ""
    if definition["enabled"] or edit.change == Change.PAUSE:
        job.pause_reason = edit.pause_reason
    _write(job, definition, at)
    _open_version(job, definition, edit.change, edit.actor, at)


def _write(job: Job, definition: Definition, at: datetime, *, is_new: bool = False) -> None:
    """Write the rows with the first tick after `at`."""
    _anchored(definition, job.created_at)
    assign(job, definition)
    due = JobNext(job=job) if is_new else job.next
    try:
        due.next_run_at = schedule_of(job).next_after(at) if job.enabled else None
    except InvalidSchedule as error:  # an H that only this job's id turns into never
        raise FieldErrors([schedule_error(error)]) from error
    try:
        job.save(force_insert=is_new, force_update=not is_new)
    except IntegrityError as error:
        raise _told(error, job.name) from error
    due.save(force_insert=is_new, force_update=not is_new)
    if due.next_run_at is not None and bell.is_near((due.next_run_at - at).total_seconds()):
        bell.ring()


def _open_version(
    job: Job, definition: Definition, change: Change, actor: str, at: datetime
) -> None:
    """Let a new version begin at `at`, where the one before it ends."""
    if change != Change.CREATE:
        JobVersion.objects.filter(job=job, valid_to__isnull=True).update(valid_to=at)
    JobVersion.objects.create(
        job=job,
        version=job.version,
        definition=definition,
        change=change,
        changed_by=actor[:200],
        valid_from=at,
        tzdata_version=TZDATA_VERSION,
    )


def _locked(job_id: uuid.UUID, team_id: int) -> Job:
    job = (
        Job.objects.select_for_update(no_key=True)
        .filter(job_id=job_id, owner_id=team_id, deleted_at__isnull=True)
        .first()
    )
    if job is None:
        raise job_not_found()
    # a statement of its own: beside the lock it would be read as it stood before the wait
    job.next = JobNext.objects.select_for_update(no_key=True).get(job=job)
    return job


def _instant_of_edit(job: Job) -> datetime:
    """Return the time, taken after the lock; after all that is recorded, should the clock have
    been set back (a failover): what has run lies before the edit."""
    at = max(db_now(), job.updated_at + INSTANT)
    tick = job.next.next_run_at
    if not job.enabled or tick is None or tick <= at:
        return at
    try:
        recorded = schedule_of(job).newest(at, tick - INSTANT, 1)
    except InvalidSchedule:  # there is no telling
        return at
    return recorded[0] if recorded else at


def _lock_team(team_id: int) -> None:
    Team.objects.select_for_update(no_key=True).get(team_id=team_id)


def _settle(job: Job, at: datetime) -> None:
    if hooks.settle is not None:
        hooks.settle(job, at)


def _tell_written(job: Job) -> None:
    for follow in hooks.written:
        follow(job)


def _set_edges(job: Job, definition: Definition) -> None:
    edges = edges_in(definition)
    if not edges and not job.has_upstreams:
        return
    if hooks.edges is None:
        raise ImproperlyConfigured("no room keeps edges: is dag in INSTALLED_APPS?")
    hooks.edges.set_edges(job, edges)


def _check_version(job: Job, if_match: Callable[[int], bool] | None) -> None:
    if if_match is not None and not if_match(job.version):
        raise PreconditionFailed(
            f"The job is at version {job.version}, which If-Match does not name.",
            headers={"ETag": f'"{job.version}"'},
        )


def _check_run_at(definition: Definition, before: Definition | None, at: datetime) -> None:
    """Refuse a runAt in the past, unless it stood there before the edit."""
    when = definition["schedule"]
    if not isinstance(when, dict) or "runAt" not in when:
        return
    if before is not None and before["schedule"] == when:
        return
    if datetime.fromisoformat(when["runAt"]) <= at:
        raise FieldErrors([("schedule.runAt", f"is in the past: it is {instant_text(at)} now")])


def _check_task(definition: Definition) -> None:
    if definition["kind"] != JobKind.TASK or hooks.check_task is None:
        return
    payload = definition["payload"]
    errors = hooks.check_task(payload["task"], payload["args"], payload["kwargs"])
    if errors:
        raise FieldErrors([(f"payload.{field}", message) for field, message in errors])


def _anchored(definition: Definition, created_at: datetime) -> Definition:
    """Give an interval without an anchor its default: the job's creation, in whole seconds."""
    when = definition["schedule"]
    if isinstance(when, dict) and "everySec" in when and when["anchor"] is None:
        when["anchor"] = instant_text(created_at.replace(microsecond=0))
    return definition


def _merge(form: Definition, changes: dict[str, Any]) -> Definition:
    """Lay changes over a definition; one of command and payload takes the other's place."""
    merged: Definition = form | changes
    for given, other in (("command", "payload"), ("payload", "command")):
        if changes.get(given) is not None and other not in changes:
            merged[other] = None
    return merged


def _told(error: IntegrityError, name: str) -> Exception:
    """Return what to tell for a refused row: the name is taken; anything else is a defect."""
    diagnosis = getattr(error.__cause__, "diag", None)
    if getattr(diagnosis, "constraint_name", None) == NAME_CONSTRAINT:
        return DuplicateName(name)
    return error
