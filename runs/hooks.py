"""Where dag hangs in what follows from new runs (HOUSE: upward only by registration)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runs.records import NewRun


@dataclass(slots=True)
class RunHooks:
    """Set once by dag's AppConfig."""

    # More rows that belong to these ones, for the same INSERT (PROTOCOL 8, 23).
    expand: list[Callable[[Sequence[NewRun]], Sequence[NewRun]]] = field(default_factory=list)
    # Called with the rows that were really inserted, in the inserting transaction; what must see
    # others' commits is put off to after this one's (PROTOCOL 21).
    born: list[Callable[[Sequence[NewRun]], None]] = field(default_factory=list)


run_hooks = RunHooks()
