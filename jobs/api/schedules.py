"""What a schedule will do, shown before it is saved."""

from datetime import datetime
from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request

from chronoproject.clock import db_now
from jobs.api.base import TeamView, reply
from jobs.api.openapi import PREVIEW, operation, ref
from jobs.api.params import read_params
from jobs.body import check_body
from jobs.changes import TickChanges
from jobs.cron import InvalidSchedule, preview, zone_info
from jobs.definition import ANY_JOB, schedule_error, schedule_errors, schedule_of_definition
from jobs.errors import FieldErrors
from jobs.fields import instant_text, optional_instant_text
from jobs.models import Job


class SchedulePreviewView(TeamView):
    """A schedule that is not saved yet."""

    http_method_names = ["post", "options"]

    @operation(
        "previewSchedule",
        "Show a schedule's next ticks, what changes of the clocks do to it, and what it says",
        {200: ref("SchedulePreview")},
        body=ref("SchedulePreviewRequest"),
    )
    def post(self, request: Request) -> HttpResponse:
        """Return the preview."""
        read_params(request, {})
        wanted = check_body(PREVIEW, request.data)
        after = db_now() if wanted["after"] is None else datetime.fromisoformat(wanted["after"])
        definition = wanted | {"startsAt": None, "endsAt": None}
        if errors := schedule_errors(definition):
            raise FieldErrors(errors)
        try:
            return reply(_preview_body(definition, after))
        except InvalidSchedule as error:
            raise FieldErrors([schedule_error(error)]) from error


def _preview_body(definition: dict[str, Any], after: datetime) -> dict[str, Any]:
    when, zone = definition["schedule"], definition["timezone"]
    if not isinstance(when, str):
        return _plain_body(definition, after)
    shown = preview(
        when,
        zone,
        after,
        definition["count"],
        hash_id=definition["jobId"] or ANY_JOB,
        dst_policy=definition["dstPolicy"],
    )
    return {
        "description": shown.description,
        "timezone": zone,
        "ticks": [
            {"tick": instant_text(one.tick), "local": one.local.isoformat(), "note": one.note}
            for one in shown.ticks
        ],
        "notes": [{"at": instant_text(note.at), "text": note.text} for note in shown.notes],
    }


def _plain_body(definition: dict[str, Any], after: datetime) -> dict[str, Any]:
    """Return the preview of one instant or an interval, which no change of the clocks touches."""
    when, zone = definition["schedule"], zone_info(definition["timezone"])
    if "runAt" in when:
        description = f"Once, at {when['runAt']}"
    else:
        when["anchor"] = when["anchor"] or instant_text(after.replace(microsecond=0))
        description = f"Every {when['everySec']} seconds, counted from {when['anchor']}"
    schedule = schedule_of_definition(definition)
    ticks: list[dict[str, str | None]] = []
    tick = schedule.next_after(after)
    while tick is not None and len(ticks) < definition["count"]:
        local = tick.astimezone(zone).isoformat()
        ticks.append({"tick": instant_text(tick), "local": local, "note": None})
        tick = schedule.next_after(tick)
    return {
        "description": description,
        "timezone": definition["timezone"],
        "ticks": ticks,
        "notes": [],
    }


def changes_body(job: Job, changes: TickChanges) -> dict[str, Any]:
    """Return what an edit would change of a job's ticks; `job` is as it would be."""
    return {
        "dryRun": True,
        "id": str(job.job_id),
        "nextRunAt": optional_instant_text(job.next.next_run_at),
        "from": instant_text(changes.after),
        "to": instant_text(changes.until),
        "isComplete": changes.is_complete,
        "counts": {
            "added": changes.added_count,
            "removed": changes.removed_count,
            "moved": changes.moved_count,
            "kept": changes.kept_count,
        },
        "added": [instant_text(tick) for tick in changes.added],
        "removed": [instant_text(tick) for tick in changes.removed],
        "moved": [
            {"from": instant_text(gone), "to": instant_text(come)} for gone, come in changes.moved
        ],
    }
