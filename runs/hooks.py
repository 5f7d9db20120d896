"""Where dag hangs in what follows from new runs (HOUSE: upward only by registration)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runs.records import NewRun, RunRef

if TYPE_CHECKING:  # lifecycle is imported before the apps are loaded, too
    from runs.models import Run


@dataclass(slots=True)
class RunHooks:
    """Set once by dag's AppConfig."""

    # More rows that belong to these ones, for the same INSERT (PROTOCOL 8, 23).
    expand: list[Callable[[Sequence[NewRun]], Sequence[NewRun]]] = field(default_factory=list)
    # Called with the rows that were really inserted, in the inserting transaction; what must see
    # others' commits is put off to after this one's (PROTOCOL 21).
    born: list[Callable[[Sequence[NewRun]], None]] = field(default_factory=list)
    # What the runs that this one waited for came to, with their outputs, by their jobs' names.
    inputs: Callable[[RunRef], dict[str, Any]] | None = None
    # Which upstreams a run waits for or was skipped for, and how, each in words.
    obstacles: Callable[["Run"], Sequence[str]] | None = None


run_hooks = RunHooks()
