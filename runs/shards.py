"""Shards of the jobs that a dispatcher replica leases (DESIGN §6, PROTOCOL 6).

A shard is a range of the hash buckets in job_next.bucket. Its lease gives precedence, nothing more:
what its holder has left lying for a moment, anybody dispatches, so a take-over waits for no lease;
and no tick is recorded twice because of row locks and the unique tick constraint alone.
"""

import time
from collections.abc import Mapping, Sequence

from jobs.models import BUCKETS
from runs import leases
from runs.floor import SQL

REPLICA, SHARD = "replica/", "shard/"
HELP_AFTER_SEC = 0.5  # due for so long, a job is anybody's: its shard's holder is busy, or dead
RENEWALS_A_LEASE = 4


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
        self._presence = f"{REPLICA}{replica[-80:]}"  # host and pid stand at its end
        self._names = [f"{SHARD}{shard}/{count}" for shard in range(count)]
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
        leases.acquire([self._presence], self.replica, self.lease_sec)
        self._share_out(dict(SQL["leases_in_force"].rows(kinds=[REPLICA, SHARD])))
        self._renewed_at = now

    def _share_out(self, holders: Mapping[str, str]) -> None:
        replicas = [holder for name, holder in holders.items() if name.startswith(REPLICA)]
        share = fair_share(self.replica, replicas, self.count)
        own = [name for name in self._names if holders.get(name) == self.replica]
        free = [name for name in self._names if name not in holders]
        leases.release(own[share:], self.replica)
        got = leases.acquire([*own, *free][:share], self.replica, self.lease_sec)
        self.held = tuple(shard for shard, name in enumerate(self._names) if name in got)

    def hand_over(self) -> None:
        """Give everything up, so that the others share it out at their next look."""
        leases.release([self._names[shard] for shard in self.held], self.replica)
        SQL["forget_leases"].run(name=[self._presence], holder=self.replica)
        self.held = ()
        self._renewed_at = -self.lease_sec
