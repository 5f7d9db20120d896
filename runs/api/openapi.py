"""The schemas of runs for OpenAPI."""

from jobs.api.openapi import page_of, read_schema
from jobs.choices import JobKind
from jobs.fields import Boolean, Choice, Field, Instant, Json, Nullable, Record, Schema
from jobs.payloads import OVERRIDES
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
ATTEMPT: dict[str, Schema] = {
    "attempt": NUMBER,
    "outcome": {"oneOf": [Choice(AttemptOutcome.values).schema(), {"type": "null"}]},
    "reason": TEXT,
    **ENDED,
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
        "RunDetail": read_schema({**RUN, "payload": {}, "output": {}}),
        "RunPage": page_of("Run"),
        "RunTrigger": trigger,
        "Attempt": read_schema(ATTEMPT),
        "AttemptPage": page_of("Attempt"),
        "Explanation": read_schema(EXPLANATION),
    }
