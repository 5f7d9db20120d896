"""Receivers of run_finished: doorbells; the sweep reaches the same state if every one is lost."""

from collections.abc import Sequence
from functools import partial

from django.db import transaction

from dag import resolver
from runs.records import Moved, RunRef
from runs.signals import Receiver, in_savepoint


def resolve_followers(sender: object, runs: Sequence[Moved], **kwargs: object) -> None:
    """Decide on the runs that wait for these; a job without downstream costs one probe.

    What a database error undid is tried again once the finish has committed.
    """
    if resolver.is_own_skip() or not (refs := resolver.followers(runs)):
        return
    moved: list[int] = []
    in_savepoint(_resolve(refs, moved))(sender, runs)
    if not moved:
        transaction.on_commit(partial(resolver.resolve_after, runs, refs), robust=True)


def _resolve(refs: Sequence[RunRef], moved: list[int]) -> Receiver:
    def resolve(finished: Sequence[Moved]) -> None:
        moved.append(resolver.resolve_after(finished, refs))

    return resolve
