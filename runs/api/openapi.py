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
        "withDownstream": Field(Boolean(), default=False),
    }
)


def components() -> dict[str, Schema]:
    """Return the components that the runs' views refer to."""
    instant, later = Instant().schema(), Nullable(Instant()).schema()
    text: Schema = {"type": "string"}
    number: Schema = {"type": "integer"}
    uid = text | {"format": "uuid"}
    ended: dict[str, Schema] = {
        "exitCode": {"type": ["integer", "null"]},
        "error": text,
        "workerId": {"type": ["string", "null"]},
        "startedAt": later,
        "finishedAt": later,
        "outputRef": {"type": ["string", "null"]},
    }
    run: dict[str, Schema] = {
        "id": uid,
        "jobId": uid,
        "jobName": text,
        "scheduledFor": instant,
        "logicalDate": instant,
        "status": Choice(RunStatus.values).schema(),
        "reason": text,
        "trigger": Choice(Trigger.values).schema(),
        "attempt": number | {"description": "the latest claimed; 0 before the first"},
        "maxAttempts": number,
        "createdAt": instant,
        "availableAt": instant,
        **ended,
        "jobVersion": number,
    }
    outcome = {"oneOf": [Choice(AttemptOutcome.values).schema(), {"type": "null"}]}
    trigger = TRIGGER.schema()
    trigger["properties"]["payload"] = {
        "oneOf": [*(OVERRIDES[kind].schema() for kind in JobKind), {"type": "null"}]
    }
    return {
        "Run": read_schema(run),
        "RunDetail": read_schema({**run, "payload": {}, "output": {}}),
        "RunPage": page_of("Run"),
        "RunTrigger": trigger,
        "Attempt": read_schema({"attempt": number, "outcome": outcome, "reason": text, **ended}),
        "AttemptPage": page_of("Attempt"),
        "Explanation": read_schema(
            {
                "runId": uid,
                "status": Choice(RunStatus.values).schema(),
                "reason": text,
                "hasStarted": {"type": "boolean"},
                "availableAt": later,
                "summary": text,
            }
        ),
    }
