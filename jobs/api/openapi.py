"""How views tell drf-spectacular what they take and answer; the schemas of jobs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from jobs.api.params import Param, openapi_params
from jobs.choices import Change, DstPolicy
from jobs.definition import WRITTEN
from jobs.fields import Choice, Field, Instant, Integer, Nullable, Record, Schema, Text
from jobs.kinds import When

F = TypeVar("F", bound=Callable[..., Any])

JSON_TYPE = "application/json"
PROBLEM_JSON = "application/problem+json"
IF_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, description="the ETag the change is based on"
)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255},
    OpenApiParameter.HEADER,
    description="for 24 hours, a repeat with this key and body gets the first answer again",
)
ERROR_WORDS = {
    400: "the body is not JSON",
    401: "no token, or none that is known",
    403: "the token's role may only read",
    404: "no such object of the team",
    405: "the method is not allowed here",
    409: "the object's state, or a name that is taken, or a key in progress",
    412: "If-Match names another version",
    413: "the body is too large",
    415: "the body is not application/json",
    422: "fields that were refused, each named",
    429: "a quota or a rate is used up",
    500: "Chrono failed, and logged it",
    503: "the database does not answer; Retry-After says when to try again",
}


def ref(name: str) -> Schema:
    """Return a reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def nullable_ref(name: str) -> Schema:
    """Return a reference to a component, or null."""
    return {"oneOf": [ref(name), {"type": "null"}]}


def page_of(name: str) -> Schema:
    """Return the schema of a page of a component."""
    return {
        "type": "object",
        "properties": {
            "results": {"type": "array", "items": ref(name)},
            "next": {"type": ["string", "null"], "format": "uri"},
        },
        "required": ["results", "next"],
    }


def operation(
    name: str,
    summary: str,
    answers: Mapping[int, Schema | None],
    *,
    body: Schema | None = None,
    params: Mapping[str, Param] | None = None,
    headers: Sequence[OpenApiParameter] = (),
    path: Sequence[str] = (),
    errors: Sequence[int] = (),
    media_type: str = JSON_TYPE,
) -> Callable[[F], F]:
    """Describe a method of a view."""
    codes = {401, 422, 500, 503, *errors}
    if body is not None:
        codes |= {400, 403, 413, 415}
    if path:
        codes.add(404)
    described = [
        OpenApiParameter(one, {"type": "string", "format": "uuid"}, OpenApiParameter.PATH)
        for one in path
    ]
    return extend_schema(
        operation_id=name,
        summary=summary,
        parameters=[*described, *headers, *openapi_params(params or {})],
        request={JSON_TYPE: body} if body is not None else None,
        responses={
            **{
                (code, media_type): OpenApiResponse(schema, description=summary)
                for code, schema in answers.items()
            },
            **{(code, PROBLEM_JSON): _problem(code) for code in sorted(codes)},
        },
    )


def _problem(code: int) -> OpenApiResponse:
    return OpenApiResponse(ref("Problem"), description=ERROR_WORDS[code])


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Tells drf-spectacular how TokenAuthentication is used."""

    target_class = "jobs.auth.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> Schema:  # noqa: ANN401 - as in the base
        """Return the security scheme."""
        return {"type": "http", "scheme": "bearer", "description": "a team's API token"}


PROBLEM: Schema = {
    "type": "object",
    "description": "RFC 9457",
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
                "required": ["field", "message"],
            },
        },
    },
    "required": ["type", "title", "status", "detail", "errors"],
}
MAX_PREVIEWED = 1000
PREVIEW = Record(
    {
        "schedule": Field(When()),
        "timezone": Field(Text(1, 64), "UTC", "IANA name"),
        "dstPolicy": Field(Choice(DstPolicy.values), DstPolicy.VIXIE.value),
        "count": Field(Integer(1, MAX_PREVIEWED), 10, "how many ticks"),
        "after": Field(Nullable(Instant()), None, "only ticks after; default: now"),
        "jobId": Field(Nullable(Text(1, 64)), None, "what H is hashed from; a job's own id"),
    }
)
PAUSE = Record({"reason": Field(Text(0, 500), "", "shown while the job is paused")})


def read_schema(properties: Mapping[str, Schema]) -> Schema:
    """Return the schema of what is only read: every member is there."""
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


INSTANTS: Schema = {"type": "array", "items": Instant().schema()}
DRY_RUN: dict[str, Schema] = {
    "dryRun": {"type": "boolean", "const": True},
    "id": {"type": "string", "format": "uuid"},
    "nextRunAt": Nullable(Instant()).schema(),
    "from": Instant().schema(),
    "to": Instant().schema() | {"description": "30 days on, or as far as was compared"},
    "isComplete": {"type": "boolean", "description": "false: too many ticks for all 30 days"},
    "counts": read_schema(
        {key: {"type": "integer"} for key in ("added", "removed", "moved", "kept")}
    ),
    "added": INSTANTS | {"description": "the first 100, as of the other two"},
    "removed": INSTANTS,
    "moved": {
        "type": "array",
        "items": read_schema({"from": Instant().schema(), "to": Instant().schema()}),
        "description": "as many ticks on the same date, at other times",
    },
}
SCHEDULE_PREVIEW: dict[str, Schema] = {
    "description": {"type": "string", "description": "the schedule in words"},
    "timezone": {"type": "string"},
    "ticks": {
        "type": "array",
        "items": read_schema(
            {
                "tick": Instant().schema(),
                "local": {"type": "string", "description": "on the wall clock of the zone"},
                "note": {"type": ["string", "null"]},
            }
        ),
    },
    "notes": {
        "type": "array",
        "items": read_schema({"at": Instant().schema(), "text": {"type": "string"}}),
        "description": "what each change of the clocks in the coming year does",
    },
}


def _job() -> Schema:
    instant, later = Instant().schema(), Nullable(Instant()).schema()
    written = WRITTEN.schema()["properties"]
    return read_schema(
        {
            "id": {"type": "string", "format": "uuid"},
            "owner": {"type": "string", "description": "the team"},
            **written,
            "pauseReason": {"type": "string"},
            "nextRunAt": later | {"description": "the next tick; null: none"},
            "lastRun": nullable_ref("Run"),
            "version": {"type": "integer"},
            "createdAt": instant,
            "updatedAt": instant,
        }
    )


def _job_write() -> Schema:
    schema = WRITTEN.schema()
    ignored = {name: {"description": "read-only, ignored"} for name in sorted(WRITTEN.ignored)}
    return schema | {"properties": schema["properties"] | ignored}


def components() -> dict[str, Schema]:
    """Return the components that the jobs' views refer to."""
    job_write = _job_write()
    return {
        "Problem": PROBLEM,
        "Job": _job(),
        "JobWrite": job_write,
        "JobPatch": {name: part for name, part in job_write.items() if name != "required"},
        "JobPause": PAUSE.schema(),
        "JobVersion": read_schema(
            {
                "version": {"type": "integer"},
                "change": Choice(Change.values).schema(),
                "changedBy": {"type": "string"},
                "validFrom": Instant().schema(),
                "validTo": Nullable(Instant()).schema(),
                "tzdataVersion": {"type": "string"},
                "definition": {
                    "type": "object",
                    "properties": WRITTEN.schema()["properties"],
                    "description": "as it was in force in [validFrom, validTo)",
                },
            }
        ),
        "JobDryRun": read_schema(DRY_RUN),
        "SchedulePreview": read_schema(SCHEDULE_PREVIEW),
        "SchedulePreviewRequest": PREVIEW.schema(),
        "JobPage": page_of("Job"),
        "JobVersionPage": page_of("JobVersion"),
    }
