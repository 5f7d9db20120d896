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
HASH_BITS = 74  # 12 after the version nibble, 62 after the variant
VERSION_8 = 0x8 << 76
VARIANT = 0b10 << 62


def run_id_of(job_id: uuid.UUID, scheduled_for: datetime) -> uuid.UUID:
    """Return the id of the job's run at `scheduled_for` (aware, not before 1970)."""
    micros = (scheduled_for - EPOCH) // MICROSECOND
    digest = hashlib.blake2b(job_id.bytes + micros.to_bytes(8), digest_size=10).digest()
    mixed = int.from_bytes(digest) >> (80 - HASH_BITS)
    high, low = mixed >> 62, mixed & ((1 << 62) - 1)
    return uuid.UUID(int=(micros // 1000 << 80) | VERSION_8 | (high << 64) | VARIANT | low)


def millisecond_of(run_id: uuid.UUID) -> datetime:
    """Return the millisecond in which the run's scheduled_for lies."""
    return EPOCH + (run_id.int >> 80) * MILLISECOND


def day_of(instant: datetime) -> datetime:
    """Return the start of the UTC day of `instant`: the key of its partition."""
    return instant.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
