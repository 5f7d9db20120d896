"""The schemas of runs for OpenAPI."""

from jobs.api.openapi import page_of, read_schema
from jobs.choices import JobKind
from jobs.fields import Boolean, Choice, Field, Instant, Json, Nullable, Record, Schema
from jobs.payloads import OVERRIDES
from runs.reconcile import Fate
from runs.states import AttemptOutcome, RunStatus, Trigger

TRIGGER = Record(
    {
        "logicalDate": Field(Nullable(Instant()), None, "the instant the run stands for"),
        "payload": Field(Nullable(Json()), None, "replaces parts of the job's for this run"),
        "withDownstream": Field(
            Boolean(), default=False, description="also a run of every job below, after this one"
        ),
    }
)
BACKFILL = Record(
    {
        "from": Field(Instant(), description="the first instant whose tick is made"),
        "to": Field(Instant(), description="ticks before it are made, up to now"),
        "dryRun": Field(Boolean(), default=False, description="only say what would be made"),
    }
)


TEXT: Schema = {"type": "string"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
NUMBER: Schema = {"type": "integer"}
UID: Schema = {"type": "string", "format": "uuid"}
INSTANT = Instant().schema()
INSTANT_OR_NULL = Nullable(Instant()).schema()
STATUS = Choice(RunStatus.values).schema()

ENDED: dict[str, Schema] = {
    "exitCode": {"type": ["integer", "null"], "description": "the command's own"},
    "error": TEXT,
    "workerId": TEXT_OR_NULL,
    "startedAt": INSTANT_OR_NULL,
    "finishedAt": INSTANT_OR_NULL,
    "outputRef": TEXT_OR_NULL,
}
RUN: dict[str, Schema] = {
    "id": UID,
    "jobId": UID,
    "jobName": TEXT,
    "scheduledFor": INSTANT,
    "logicalDate": INSTANT,
    "status": STATUS,
    "reason": TEXT,
    "trigger": Choice(Trigger.values).schema(),
    "attempt": NUMBER | {"description": "the latest claimed; 0 before the first"},
    "maxAttempts": NUMBER,
    "createdAt": INSTANT,
    "availableAt": INSTANT,
    **ENDED,
    "jobVersion": NUMBER,
}
PROGRESS: Schema = {
    "oneOf": [read_schema({"done": NUMBER, "total": NUMBER}), {"type": "null"}],
    "description": "as a Python task tells it, at most a heartbeat old; the last one after the end",
}
OUTPUT: Schema = {
    "description": "what a task returned, a command wrote to $CHRONO_OUTPUT, or a call was answered"
}
ATTEMPT: dict[str, Schema] = {
    "attempt": NUMBER,
    "outcome": {"oneOf": [Choice(AttemptOutcome.values).schema(), {"type": "null"}]},
    "reason": TEXT,
    **ENDED,
}
TICK: dict[str, Schema] = {
    "tick": INSTANT,
    "fate": Choice(Fate.values).schema()
    | {"description": "due: not yet; the last three should not be there"},
    "runId": {
        "type": ["string", "null"],
        "format": "uuid",
        "description": "its run; of a coalesced tick the run it went into",
    },
    "detail": TEXT | {"description": "what is wrong, else empty"},
}
BACKFILLED: dict[str, Schema] = {
    "dryRun": {"type": "boolean"},
    "from": INSTANT,
    "to": INSTANT,
    "count": NUMBER | {"description": "how many runs are made"},
    "ticks": {
        "type": "array",
        "items": read_schema({"tick": INSTANT, "runId": UID}),
        "description": "the first 1,000 of them",
    },
    "operationId": TEXT_OR_NULL | {"description": "of a large one, which a worker makes"},
}
EXPLANATION: dict[str, Schema] = {
    "runId": UID,
    "status": STATUS,
    "reason": TEXT,
    "hasStarted": {"type": "boolean"},
    "availableAt": INSTANT_OR_NULL,
    "summary": TEXT,
}


def components() -> dict[str, Schema]:
    """Return the components that the runs' views refer to."""
    trigger = TRIGGER.schema()
    trigger["properties"]["payload"] = {
        "oneOf": [*(OVERRIDES[kind].schema() for kind in JobKind), {"type": "null"}]
    }
    return {
        "Run": read_schema(RUN),
        "RunDetail": read_schema({**RUN, "progress": PROGRESS, "payload": {}, "output": OUTPUT}),
        "RunPage": page_of("Run"),
        "RunTrigger": trigger,
        "Tick": read_schema(TICK),
        "TickPage": page_of("Tick"),
        "Backfill": BACKFILL.schema(),
        "Backfilled": read_schema(BACKFILLED),
        "Attempt": read_schema(ATTEMPT),
        "AttemptPage": page_of("Attempt"),
        "Explanation": read_schema(EXPLANATION),
    }
