"""Named leases by database time, for work that one process should do (the seed's locks)."""

from dataclasses import dataclass

from runs.floor import SQL


@dataclass(frozen=True, slots=True)
class NamedLease:
    """A right to be the one that does `name`, as `holder`, for `lease_sec` after each renewal."""

    name: str
    holder: str
    lease_sec: float

    def acquire(self) -> bool:
        """Take or renew the lease; False while another holds it."""
        term = SQL["acquire_lease"].value(
            name=self.name, holder=self.holder, lease_sec=self.lease_sec
        )
        return term is not None

    def release(self) -> None:
        """Let the next one have it at once."""
        SQL["release_lease"].run(name=self.name, holder=self.holder)
