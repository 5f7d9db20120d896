"""Python tasks: registered by name with @task, checked against their signature, given a context."""

import functools
import importlib
import inspect
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

P = ParamSpec("P")
R = TypeVar("R")

MAX_COUNT = (1 << 63) - 1
CONTEXT_KEYWORD, INPUTS_KEYWORD = "run", "inputs"


BY_KEYWORD = frozenset({inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY})


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a task knows of its run; passed as the keyword `run` to tasks that take it."""

    id: uuid.UUID
    job_id: uuid.UUID
    attempt: int
    logical_date: datetime
    scheduled_for: datetime
    logger: logging.Logger
    report: Callable[[int, int], None]
    # What the upstreams' runs came to, by the upstream's name; empty for a job that has none.
    inputs: Mapping[str, Any] = field(default_factory=dict)

    def progress(self, done: float, total: float) -> None:
        """Tell how far the task is; the API shows it with the worker's next heartbeat."""
        self.report(bounded(done), bounded(total))


def bounded(count: float) -> int:
    """Return the count as a number that the worker's memory and a bigint column can hold."""
    return int(max(0, min(count, MAX_COUNT)))


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A registered task."""

    name: str
    function: Callable[..., Any]
    signature: inspect.Signature
    takes_context: bool

    def wants_inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Say whether `inputs` is a parameter that the job's own arguments leave to Chrono.

        Raises TypeError when the arguments do not fit.
        """
        parameter = self.signature.parameters.get(INPUTS_KEYWORD)
        if parameter is None or parameter.kind not in BY_KEYWORD:
            return False
        return INPUTS_KEYWORD not in self.signature.bind_partial(*args, **kwargs).arguments


_tasks: dict[str, TaskEntry] = {}


def task(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Register a function under `name`. Raises ValueError when the name is taken."""

    def register(function: Callable[P, R]) -> Callable[P, R]:
        taken = _tasks.get(name)
        if taken is not None and taken.function is not function:
            raise ValueError(f"task {name!r} is registered twice")
        signature = inspect.signature(function)
        _tasks[name] = TaskEntry(name, function, signature, takes_context(signature))
        return function

    return register


def takes_context(signature: inspect.Signature) -> bool:
    """Say whether a function takes the keyword `run`."""
    parameter = signature.parameters.get(CONTEXT_KEYWORD)
    if parameter is not None:
        return parameter.kind is not inspect.Parameter.POSITIONAL_ONLY
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    return inspect.Parameter.VAR_KEYWORD in kinds


@functools.cache
def load_task_modules() -> None:
    """Import the modules of CHRONO_TASK_MODULES, once. Raises ImproperlyConfigured."""
    for module in settings.CHRONO_TASK_MODULES:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ImproperlyConfigured(f"CHRONO_TASK_MODULES: {module}: {error}") from error


def registered() -> dict[str, TaskEntry]:
    """Return the tasks by name."""
    load_task_modules()
    return dict(_tasks)


def check_arguments(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise TypeError, naming the argument, when the task cannot be called so.

    Raises LookupError for a name that is not registered.
    """
    entry = registered().get(name)
    if entry is None:
        raise LookupError(f"no task {name!r} is registered")
    if CONTEXT_KEYWORD in kwargs and entry.takes_context:
        raise TypeError(f"argument {CONTEXT_KEYWORD!r} is given by Chrono itself")
    context: dict[str, Any] = {CONTEXT_KEYWORD: None} if entry.takes_context else {}
    if entry.wants_inputs(args, kwargs):
        context[INPUTS_KEYWORD] = None
    entry.signature.bind(*args, **kwargs, **context)
