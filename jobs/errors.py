"""What a write or a read of jobs may be refused with; rendered by chronoproject.errors."""

from http import HTTPStatus

from chronoproject.errors import (
    BadRequest,
    BodyTooLarge,
    ChronoError,
    Conflict,
    FieldErrors,
    NotFound,
    PreconditionFailed,
    TooManyRequests,
    Unavailable,
)

__all__ = [
    "BadRequest",
    "BodyTooLarge",
    "ChronoError",
    "Conflict",
    "DuplicateName",
    "FieldErrors",
    "KeyInProgress",
    "NotFound",
    "PreconditionFailed",
    "TooManyRequests",
    "Unavailable",
    "job_not_found",
]


class DuplicateName(Conflict):
    """The team has a job of this name already."""

    kind = "duplicate-name"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The team already has a job named {name!r}.",
            errors=[("name", "is already the name of another job of the team")],
        )


class KeyInProgress(Conflict):
    """The first request with this Idempotency-Key has not been answered yet."""

    status = HTTPStatus.CONFLICT
    kind = "idempotency-key-in-progress"

    def __init__(self) -> None:
        super().__init__(
            "The first request with this Idempotency-Key is still in progress; try again.",
            headers={"Retry-After": "1"},
        )


def job_not_found() -> NotFound:
    """Return the one answer for no job, a deleted one and another team's."""
    return NotFound("There is no such job.")
