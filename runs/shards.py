"""Shards of the jobs that a dispatcher replica leases (DESIGN §6, PROTOCOL 6).

A shard is a range of the hash buckets in jobs.bucket. Its lease gives precedence, nothing more:
what its holder has left lying for a moment, anybody dispatches, so a take-over waits for no lease;
and no tick is recorded twice because of row locks and the unique tick constraint alone.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.models import BUCKETS
from runs.floor import SQL

REPLICA, SHARD = "replica/", "shard/"
RENEWALS_A_LEASE = 4


@dataclass(frozen=True, slots=True)
class Row:
    """A lease that is in force."""

    name: str
    holder: str


def bucket_range(shard: int, shards: int) -> range:
    """Return the buckets of one of so many shards; together they are all buckets, each once."""
    return range(shard * BUCKETS // shards, (shard + 1) * BUCKETS // shards)


def fair_share(replica: str, replicas: Sequence[str], shards: int) -> int:
    """Return how many shards a replica should hold: the first by name take one more each."""
    each, rest = divmod(shards, len(replicas))
    return each + (sorted(replicas).index(replica) < rest)


class Shards:
    """The shards that one replica holds, and its presence, by which the others count it in."""

    def __init__(self, replica: str, count: int, lease_sec: float) -> None:
        """Hold none at first."""
        self.replica = replica
        self.count = count
        self.lease_sec = lease_sec
        self.held: tuple[int, ...] = ()
        self._renewed_at = -lease_sec

    def buckets(self) -> list[int] | None:
        """Return the buckets of the held shards; None for all there are."""
        if len(self.held) == self.count:
            return None
        return [bucket for shard in self.held for bucket in bucket_range(shard, self.count)]

    def refresh(self) -> None:
        """Renew what is held, and take or give up shards until the share is fair."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        if now - self._renewed_at < self.lease_sec / RENEWALS_A_LEASE:
            return
        self._acquire([f"{REPLICA}{self.replica}"])
        rows = [Row(*row) for row in SQL["leases_in_force"].rows(kinds=[REPLICA, SHARD])]
        self._share_out(rows)
        self._renewed_at = now

    def _share_out(self, rows: Sequence[Row]) -> None:
        replicas = [row.name.removeprefix(REPLICA) for row in rows if row.name.startswith(REPLICA)]
        holders = {row.name: row.holder for row in rows if row.name.startswith(SHARD)}
        names = [f"{SHARD}{shard}/{self.count}" for shard in range(self.count)]
        share = fair_share(self.replica, replicas, self.count)
        own = [name for name in names if holders.get(name) == self.replica]
        free = [name for name in names if name not in holders]
        wanted = [*own, *free][:share]
        self._release(own[share:])
        got = self._acquire(wanted)
        self.held = tuple(shard for shard, name in enumerate(names) if name in got)

    def hand_over(self) -> None:
        """Give everything up, so that the others share it out at their next look."""
        self.held = ()
        self._renewed_at = -self.lease_sec
        SQL["release_leases_of"].run(holder=self.replica, kinds=[SHARD])
        SQL["forget_lease"].run(name=f"{REPLICA}{self.replica}", holder=self.replica)

    def _acquire(self, names: Sequence[str]) -> set[str]:
        rows = SQL["acquire_leases"].rows(
            name=sorted(names), holder=self.replica, lease_sec=self.lease_sec
        )
        return {row[0] for row in rows}

    def _release(self, names: Sequence[str]) -> None:
        if names:
            SQL["release_leases"].run(name=list(names), holder=self.replica)
