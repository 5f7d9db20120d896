"""Where dag hangs in what follows from new runs (HOUSE: upward only by registration)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runs.records import NewRun, RunRef


@dataclass(slots=True)
class RunHooks:
    """Set once by dag's AppConfig."""

    # More rows that belong to these ones, for the same INSERT (PROTOCOL 8, 23).
    expand: list[Callable[[Sequence[NewRun]], Sequence[NewRun]]] = field(default_factory=list)
    # Called with the rows that were really inserted, in the inserting transaction.
    born: list[Callable[[Sequence[NewRun]], None]] = field(default_factory=list)
    # Called with the waiting rows in a transaction of its own after the commit (PROTOCOL 21).
    resolve: list[Callable[[Sequence[RunRef]], None]] = field(default_factory=list)


run_hooks = RunHooks()
