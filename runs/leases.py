"""Named leases by database time, for work that one process should do (the seed's locks)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runs.floor import SQL


def acquire(names: Iterable[str], holder: str, lease_sec: float) -> set[str]:
    """Take or renew leases for `lease_sec`; return those got, the others are held by others."""
    # In one order everywhere (PROTOCOL 8).
    rows = SQL["acquire_leases"].rows(name=sorted(names), holder=holder, lease_sec=lease_sec)
    return {row[0] for row in rows}


def release(names: Sequence[str], holder: str) -> None:
    """Let the next one have these leases at once."""
    if names:
        SQL["release_leases"].run(name=list(names), holder=holder)


@dataclass(frozen=True, slots=True)
class NamedLease:
    """A right to be the one that does `name`, as `holder`, for `lease_sec` after each renewal."""

    name: str
    holder: str
    lease_sec: float

    def acquire(self) -> bool:
        """Take or renew the lease; False while another holds it."""
        return bool(acquire([self.name], self.holder, self.lease_sec))

    def release(self) -> None:
        """Let the next one have it at once."""
        release([self.name], self.holder)
