"""Receivers of run_finished: doorbells; the sweep reaches the same state if every one is lost."""

from collections.abc import Sequence

from dag import resolver
from runs.records import Moved
from runs.signals import in_savepoint


def resolve_followers(sender: object, runs: Sequence[Moved], **kwargs: object) -> None:
    """Decide on the runs that wait for these; a job without downstream costs one probe."""
    if resolver.is_own_skip() or not (refs := resolver.followers(runs)):
        return

    def resolve(finished: Sequence[Moved]) -> None:
        resolver.resolve_after(finished, refs)

    in_savepoint(resolve)(sender, runs)
