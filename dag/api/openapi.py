"""The schemas of dependencies for OpenAPI."""

from dag.models import EdgeMatch
from dag.trigger_rules import Outcome
from jobs.api.openapi import nullable_ref, page_of, read_schema, ref
from jobs.choices import TriggerRule
from jobs.fields import Boolean, Choice, Field, Instant, Nullable, Record, Schema

AGAIN = Record(
    {"onlyFailed": Field(Boolean(), default=False, description="leave what succeeded as it is")}
)

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
UID: Schema = {"type": "string", "format": "uuid"}
MATCH = Choice(EdgeMatch.values).schema()
RULE = Choice(TriggerRule.values).schema()

NODE: dict[str, Schema] = {
    "jobId": UID,
    "jobName": TEXT,
    "triggerRule": RULE,
    "enabled": FLAG,
    "run": nullable_ref("Run"),
}
EDGE: dict[str, Schema] = {"jobId": UID, "dependsOn": UID, "match": MATCH, "dayOffset": NUMBER}
UPSTREAM: dict[str, Schema] = {
    "jobId": UID,
    "jobName": TEXT,
    "isDeleted": FLAG | {"description": "the upstream was deleted; it has no more ticks"},
    "triggerRule": RULE | {"description": "of the run that waits, as it was born"},
    "match": MATCH,
    "from": Instant().schema(),
    "until": Instant().schema()
    | {"description": "tick: the same logical date; day: the end of the date, not part of it"},
    "expected": {
        "type": ["integer", "null"],
        "description": "ticks that the upstream's schedule had there when the run was born",
    },
    "outcomes": {
        "type": "object",
        "properties": {outcome.value: NUMBER for outcome in Outcome},
        "required": [outcome.value for outcome in Outcome],
        "description": "how many of the upstream's ticks came to what",
    },
    "runs": {"type": "array", "items": ref("Run"), "description": "newest first, at most 100"},
}


def components() -> dict[str, Schema]:
    """Return the components that the views of dag refer to."""
    return {
        "DagNode": read_schema(NODE),
        "DagEdge": read_schema(EDGE),
        "Dag": read_schema(
            {
                "jobId": UID,
                "logicalDate": Nullable(Instant()).schema(),
                "nodes": {"type": "array", "items": ref("DagNode")},
                "edges": {"type": "array", "items": ref("DagEdge")},
                "isComplete": FLAG | {"description": "false: there are more jobs than are shown"},
            }
        ),
        "RerunDownstream": AGAIN.schema(),
        "RunsAgain": read_schema({"runIds": {"type": "array", "items": UID}}),
        "Upstream": read_schema(UPSTREAM),
        "UpstreamPage": page_of("Upstream"),
    }
