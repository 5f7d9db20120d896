"""Run ids: UUIDv8 (RFC 9562 §5.8) derived from (job_id, scheduled_for).

The first 48 bits are scheduled_for in Unix milliseconds, so an id alone names its day's partition;
the rest is a hash, so every replica gives the same tick the same id, after a restore too.
"""

import hashlib
import uuid
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MILLISECOND = timedelta(milliseconds=1)
VARIANT = dict(zip("0123456789abcdef", "89ab89ab89ab89ab", strict=True))


def micros_of(instant: datetime) -> int:
    """Return the instant as whole microseconds since 1970."""
    return (instant - EPOCH) // MICROSECOND


def run_id_text(job: bytes, micros: int) -> str:
    """Return the id of the run of the job (its 16 bytes) at the instant, in the usual spelling."""
    head = f"{micros // 1000:012x}"
    tail = hashlib.blake2b(job + micros.to_bytes(8), digest_size=10).hexdigest()
    return f"{head[:8]}-{head[8:]}-8{tail[:3]}-{VARIANT[tail[3]]}{tail[4:7]}-{tail[7:19]}"


def run_id_of(job_id: uuid.UUID, scheduled_for: datetime) -> uuid.UUID:
    """Return the id of the job's run at `scheduled_for` (aware, not before 1970)."""
    return uuid.UUID(run_id_text(job_id.bytes, micros_of(scheduled_for)))


def millisecond_of(run_id: uuid.UUID) -> datetime:
    """Return the millisecond in which the run's scheduled_for lies."""
    return EPOCH + (run_id.int >> 80) * MILLISECOND


def day_of(instant: datetime) -> datetime:
    """Return the start of the UTC day of `instant`: the key of its partition."""
    return instant.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
