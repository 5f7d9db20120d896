"""Runs of one message stand in line in a pool child, and leave it when one ahead takes long."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A message is worth sharing by runs that take milliseconds; behind any other, others may be free.
PATIENCE_SEC = 0.25


class Lineup(Generic[T]):
    """A line that one thread works off, and that another looks after.

    Each item is taken once: by `take`, or by `on_long`, which gets all that still stand in line,
    be it none, once the item taken last has lasted longer than `patience_sec`.
    """

    def __init__(
        self, on_long: Callable[[list[T]], None], patience_sec: float = PATIENCE_SEC
    ) -> None:
        self._on_long = on_long
        self._patience_sec = patience_sec
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._taken_at = 0.0
        self._is_shared = False
        self._is_watched = False  # a line of several has begun, and its present item is not told of
        self._is_telling = False
        self._watcher: threading.Thread | None = None

    def put(self, items: Iterable[T]) -> None:
        """Let the items stand in line; it is empty."""
        with self._changed:
            self._items.extend(items)
            self._is_shared = len(self._items) > 1  # nobody waits for a lone item
            if self._is_shared and self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="lineup", daemon=True)
                self._watcher.start()

    def take(self) -> T | None:
        """Take the next one; None when nothing is left, and nothing is being told any more."""
        with self._changed:
            self._taken_at = time.monotonic()
            self._is_watched = self._is_shared and bool(self._items)
            if self._is_watched:
                self._changed.notify_all()
            if self._items:
                return self._items.popleft()
            self._changed.wait_for(lambda: not self._is_telling)
            return None

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_watched)
                left_sec = self._taken_at + self._patience_sec - time.monotonic()
                if left_sec > 0:
                    self._changed.wait(left_sec)
                    continue
                items = list(self._items)
                self._items.clear()
                self._is_watched, self._is_telling = False, True
            try:
                self._on_long(items)
            except Exception:
                # The thread must live; whoever got the items has let go of them.
                logger.exception("%d runs could not be given back", len(items))
            finally:
                with self._changed:
                    self._is_telling = False
                    self._changed.notify_all()
