"""Idempotency-Key: a repeat gets the first answer, whatever died in between.

The key is claimed in a transaction of its own; the answer is kept in the very transaction that does
the work. So either both are there or neither, and a claim without an answer is one in progress, or
one whose process died: after a minute the next request with the same body takes it over.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError

from chronoproject.sql import load, retrying
from jobs.errors import FieldErrors, KeyInProgress
from jobs.models import Team

logger = logging.getLogger(__name__)

SQL = load(Path(__file__).parent / "sql")
ABANDONED_SEC = 60
MAX_KEY = 255
HEADER = "Idempotency-Key"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered with; `text` is the JSON that was, or will be, sent."""

    status: int
    text: str
    headers: Mapping[str, str]

    @classmethod
    def of(cls, status: int, body: object, headers: Mapping[str, str] | None = None) -> "Answer":
        """Return the answer with this body."""
        return cls(status, json.dumps(body), dict(headers or {}))


@dataclass(frozen=True, slots=True)
class _Claim:
    key_id: int
    created_at: datetime


def answer_once(
    team: Team, key: str | None, request_hash: str, act: Callable[[], Answer]
) -> Answer:
    """Return what `act` answers, or what it answered to the first request with this key.

    An error that `act` raises is no answer: the key is free again. Raises FieldErrors for a bad key
    or one used with another request, KeyInProgress while the first is not answered.
    """
    if key is None:
        return act()
    if not (0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
        raise FieldErrors([(HEADER, f"must be 1 to {MAX_KEY} printable ASCII characters")])
    claim = _claim(team, key, request_hash)
    if claim is None:
        return _first_answer(team, key, request_hash)
    try:
        return _act_and_keep(claim, act)
    except Exception:
        _release(claim)
        raise


def _claim(team: Team, key: str, request_hash: str) -> _Claim | None:
    rows = SQL["claim_key"].rows(
        owner=team.team_id,
        key=key,
        request_hash=request_hash,
        keep_hours=settings.CHRONO_IDEMPOTENCY_HOURS,
        abandoned_sec=ABANDONED_SEC,
    )
    return _Claim(*rows[0]) if rows else None


def _first_answer(team: Team, key: str, request_hash: str) -> Answer:
    rows = SQL["read_key"].rows(owner=team.team_id, key=key)
    if not rows:  # released or purged this instant
        raise KeyInProgress
    first_hash, status_code, response = rows[0]
    if first_hash != request_hash:
        raise FieldErrors([(HEADER, "was used before, with another request")])
    if status_code is None:
        raise KeyInProgress
    kept: dict[str, Any] = response if isinstance(response, dict) else json.loads(response)
    return Answer(status_code, kept["text"], kept["headers"] | {"Idempotency-Replayed": "true"})


@retrying()
def _act_and_keep(claim: _Claim, act: Callable[[], Answer]) -> Answer:
    answer = act()
    kept = SQL["keep_answer"].run(
        status_code=answer.status,
        response=json.dumps({"text": answer.text, "headers": dict(answer.headers)}),
        key_id=claim.key_id,
        created_at=claim.created_at,
    )
    if not kept:  # it took longer than a minute, and another request took over
        raise KeyInProgress
    return answer


def _release(claim: _Claim) -> None:
    try:
        SQL["release_key"].run(key_id=claim.key_id, created_at=claim.created_at)
    except DatabaseError as error:
        logger.warning("an idempotency key stays claimed for %s s: %s", ABANDONED_SEC, error)
