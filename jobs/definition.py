"""A job's definition: its fields as data, its check, and its way to and from a row.

A *definition* is a dict in the API's names with every default filled in; what is executed stands
in `kind` and `payload`. It is what job_versions keep and workers read. A client writes and reads
`command` or `payload` instead: `clean` and `api_form` lead from the one to the other.
"""

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from jobs.body import check_body
from jobs.choices import (
    ConcurrencyPolicy,
    DstPolicy,
    JobKind,
    MisfirePolicy,
    Priority,
    TriggerRule,
)
from jobs.cron import InvalidSchedule, instant_of
from jobs.errors import FieldErrors
from jobs.fields import (
    Boolean,
    Choice,
    Field,
    Instant,
    Integer,
    ListOf,
    Nullable,
    Record,
    Text,
    instant_text,
    optional_instant_text,
)
from jobs.hooks import Edge
from jobs.kinds import ALL, BACKOFF, DEFAULT_BACKOFF, NAME, POOL, RetryOn, Upstream, When
from jobs.models import Job
from jobs.payloads import Command, Env, Payload
from jobs.schedule import Schedule

Definition = dict[str, Any]

MAX_SPAN_SEC = 366 * 86_400
MAX_UPSTREAMS = 1000
ANY_JOB = "any"  # stands for the id that H is hashed from, before there is one
SCHEDULE_MEMBERS = frozenset({"runAt", "everySec", "anchor"})
READ_ONLY = frozenset(
    {
        "id",
        "owner",
        "nextRunAt",
        "lastRun",
        "version",
        "createdAt",
        "updatedAt",
        "pauseReason",
    }
)


WRITTEN = Record(
    {
        "name": Field(NAME, description="unique among the team's jobs"),
        "description": Field(Text(0, 10_000), ""),
        "tags": Field(ListOf(Text(1, 64), 50), []),
        "schedule": Field(Nullable(When()), None, "null: triggered, or driven by dependsOn"),
        "timezone": Field(Text(1, 64), "UTC", "IANA name"),
        "dstPolicy": Field(Choice(DstPolicy.values), DstPolicy.VIXIE.value),
        "startsAt": Field(Nullable(Instant()), None, "no tick before"),
        "endsAt": Field(Nullable(Instant()), None, "no tick after"),
        "enabled": Field(
            Boolean(), default=True, description="false: paused; a PUT without it leaves it"
        ),
        "command": Field(Nullable(Command()), None, "exactly one of command and payload"),
        "payload": Field(Nullable(Payload()), None, "exactly one of command and payload"),
        "env": Field(Env(), {}),
        "timeoutSec": Field(Integer(1, 604_800), 3600, "an attempt's time limit"),
        "killGraceSec": Field(Integer(0, 3600), 10, "from SIGTERM to SIGKILL"),
        "retries": Field(Integer(0, 100), 0, "attempts after the first"),
        "backoff": Field(BACKOFF, DEFAULT_BACKOFF),
        "retryOn": Field(RetryOn(), ALL),
        "maxConcurrency": Field(Nullable(Integer(1, 100_000)), None, "null: no limit"),
        "concurrencyPolicy": Field(
            Choice(ConcurrencyPolicy.values),
            ConcurrencyPolicy.QUEUE.value,
            "what becomes of a run that finds no room: it waits, is skipped, or replaces the job's "
            "active ones; nothing without maxConcurrency",
        ),
        "concurrencyKey": Field(
            Nullable(Text(1, 200)),
            None,
            "active runs of the team's jobs with the same key are counted together; nothing "
            "without maxConcurrency",
        ),
        "misfirePolicy": Field(Choice(MisfirePolicy.values), MisfirePolicy.RUN_ONCE.value),
        "misfireGraceSec": Field(Integer(0, 604_800), 60),
        "maxCatchup": Field(Integer(0, 1000), 100),
        "dependsOn": Field(ListOf(Upstream(), MAX_UPSTREAMS), []),
        "triggerRule": Field(Choice(TriggerRule.values), TriggerRule.ALL_SUCCESS.value),
        "dependencyTimeoutSec": Field(Integer(1, MAX_SPAN_SEC), 86_400),
        "priority": Field(Choice(Priority.values), Priority.NORMAL.value),
        "pool": Field(POOL, "default", "the workers that may run it"),
        "slaSec": Field(
            Nullable(Integer(1, MAX_SPAN_SEC)), None, "kept with the job; nothing acts on it yet"
        ),
    },
    ignored=READ_ONLY,
)


def clean(body: Any, *, owner: str) -> Definition:  # noqa: ANN401 - any JSON value
    """Return the definition that a client wrote; raise FieldErrors naming all that is wrong.

    Read-only fields are ignored, but for an owner that is not the team called `owner`.
    """
    definition: Definition = check_body(WRITTEN, body)
    errors = _owner_errors(body, owner) + _exclusive_errors(definition) + _edge_errors(definition)
    errors += schedule_errors(definition)
    if errors:
        raise FieldErrors(errors)
    command, payload = definition.pop("command"), definition.pop("payload")
    definition["kind"] = JobKind.COMMAND.value if payload is None else payload["type"]
    definition["payload"] = {"command": command} if payload is None else payload
    return definition


def _owner_errors(body: dict[str, Any], owner: str) -> list[tuple[str, str]]:
    if body.get("owner", owner) == owner:
        return []
    return [("owner", f"is not {owner}, the team of the token; leave it out")]


def _exclusive_errors(definition: Definition) -> list[tuple[str, str]]:
    given = [name for name in ("command", "payload") if definition[name] is not None]
    if len(given) == 1:
        return []
    verb = "are both given" if given else "are both missing"
    message = f"command and payload {verb}; give exactly one"
    return [("command", message), ("payload", message)]


def _edge_errors(definition: Definition) -> list[tuple[str, str]]:
    ids = [edge["jobId"] for edge in definition["dependsOn"]]
    return [
        (f"dependsOn[{at}]", "names a job that is named before")
        for at, job_id in enumerate(ids)
        if job_id in ids[:at]
    ]


def schedule_errors(definition: Definition) -> list[tuple[str, str]]:
    """Check schedule, zone and dates together, and resolve a local runAt by the zone."""
    try:
        when = definition["schedule"]
        if isinstance(when, dict) and "runAt" in when:
            when["runAt"] = _resolved(when["runAt"], definition["timezone"])
        schedule_of_definition(definition, hash_id=ANY_JOB).validate()
    except InvalidSchedule as error:
        return [schedule_error(error)]
    return []


def schedule_error(error: InvalidSchedule) -> tuple[str, str]:
    """Return the field that is at fault, in the API's names, and why."""
    if error.field in SCHEDULE_MEMBERS:
        return f"schedule.{error.field}", str(error)
    return error.field if error.field in WRITTEN.fields else "schedule", str(error)


def _resolved(run_at: str, timezone: str) -> str:
    """Return the instant of a runAt, by the rule of a fixed-time job where it has no offset."""
    time = datetime.fromisoformat(run_at)
    return run_at if time.tzinfo else instant_text(instant_of(time, timezone))


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def schedule_of_definition(definition: Definition, *, hash_id: str = "") -> Schedule:
    """Return the schedule that a definition states."""
    when = definition["schedule"]
    form = when if isinstance(when, dict) else {}
    return Schedule(
        timezone=definition["timezone"],
        cron=when if isinstance(when, str) else None,
        run_at=_instant(form.get("runAt")),
        every_sec=form.get("everySec"),
        anchor=_instant(form.get("anchor")),
        starts_at=_instant(definition["startsAt"]),
        ends_at=_instant(definition["endsAt"]),
        dst_policy=definition["dstPolicy"],
        hash_id=hash_id,
    )


def api_form(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition as clients write and read it."""
    form = {name: definition[name] for name in WRITTEN.fields if name in definition}
    is_command = definition["kind"] == JobKind.COMMAND
    form["command"] = definition["payload"]["command"] if is_command else None
    form["payload"] = None if is_command else definition["payload"]
    form["dependsOn"] = [
        edge["jobId"] if (edge["match"], edge["dayOffset"]) == ("tick", 0) else edge
        for edge in definition["dependsOn"]
    ]
    return form


def edges_in(definition: Definition) -> list[Edge]:
    """Return the upstream edges that a definition states."""
    return [
        Edge(uuid.UUID(edge["jobId"]), edge["match"], edge["dayOffset"])
        for edge in definition["dependsOn"]
    ]


# Fields that are one column each, as they are.
COLUMNS = {
    "name": "name",
    "description": "description",
    "tags": "tags",
    "timezone": "timezone",
    "dstPolicy": "dst_policy",
    "enabled": "enabled",
    "kind": "kind",
    "payload": "payload",
    "env": "env",
    "timeoutSec": "timeout_sec",
    "killGraceSec": "kill_grace_sec",
    "retries": "max_retries",
    "maxConcurrency": "max_concurrency",
    "concurrencyPolicy": "concurrency_policy",
    "concurrencyKey": "concurrency_key",
    "misfirePolicy": "misfire_policy",
    "misfireGraceSec": "misfire_grace_sec",
    "maxCatchup": "max_catchup",
    "triggerRule": "trigger_rule",
    "dependencyTimeoutSec": "dependency_timeout_sec",
    "priority": "priority",
    "pool": "pool",
    "slaSec": "sla_sec",
}
BACKOFF_COLUMNS = {
    "baseSec": "backoff_base_sec",
    "factor": "backoff_factor",
    "maxSec": "backoff_max_sec",
    "jitter": "backoff_jitter",
}


def definition_of(job: Job, edges: Sequence[Edge]) -> Definition:
    """Return the definition that a row and its edges hold."""
    return {
        **{name: getattr(job, column) for name, column in COLUMNS.items()},
        "schedule": _when_of(job),
        "startsAt": optional_instant_text(job.starts_at),
        "endsAt": optional_instant_text(job.ends_at),
        "backoff": {name: getattr(job, column) for name, column in BACKOFF_COLUMNS.items()},
        "retryOn": ALL if job.retry_on is None else job.retry_on,
        "dependsOn": [
            {"jobId": str(edge.job_id), "match": edge.match, "dayOffset": edge.day_offset}
            for edge in edges
        ],
    }


def _when_of(job: Job) -> str | dict[str, Any] | None:
    if job.run_at is not None:
        return {"runAt": instant_text(job.run_at)}
    if job.every_sec is not None:
        return {"everySec": job.every_sec, "anchor": optional_instant_text(job.anchor)}
    return job.schedule


def assign(job: Job, definition: Definition) -> None:
    """Write a definition into a row's attributes; edges are kept by hooks.edges."""
    schedule = schedule_of_definition(definition)
    for name, column in COLUMNS.items():
        setattr(job, column, definition[name])
    for name, column in BACKOFF_COLUMNS.items():
        setattr(job, column, definition["backoff"][name])
    job.schedule = schedule.cron
    job.run_at = schedule.run_at
    job.every_sec = schedule.every_sec
    job.anchor = schedule.anchor
    job.starts_at = schedule.starts_at
    job.ends_at = schedule.ends_at
    job.retry_on = None if definition["retryOn"] == ALL else definition["retryOn"]
