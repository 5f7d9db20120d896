"""Executes registered Python functions in the pool child."""

import contextlib
import io
import logging
import os
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from billiard.common import terminate_handler_fired
from django.db import connections

from runs import slots, task_registry
from runs.executors import interrupt, proctree
from runs.executors.base import Log, Outcome, Work, ended_outcome, note
from runs.executors.output import MAX_OUTPUT_BYTES, OutputError, json_text
from runs.pool_child import Place, PoolChild
from runs.task_registry import RunContext, TaskEntry

KILL_PAUSE_SEC = 0.005
RUN_LOGGER = "chrono.run"
logging.getLogger(RUN_LOGGER).setLevel(logging.DEBUG)
logging.getLogger(RUN_LOGGER).propagate = False
OWN_LOGGERS = ("runs.", "celery.", "httpx", "httpcore")  # the worker's affairs, not the task's


class LogText(io.TextIOBase):
    """A text stream into an attempt's log: what sys.stdout is while a task runs."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def writable(self) -> bool:
        """Say that this can be written to."""
        return True

    def write(self, text: str) -> int:
        """Append text to the log."""
        self._log.write(text.encode(errors="replace"))
        return len(text)


class LogHandler(logging.Handler):
    """Carries log records of the task, and of what it calls, into the attempt's log."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log
        self.addFilter(lambda record: not record.name.startswith(OWN_LOGGERS))
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Append the record."""
        try:
            self._log.write(f"{self.format(record)}\n".encode(errors="replace"))
        except (TypeError, ValueError):
            self.handleError(record)  # a bad format string is the task's, and is told as usual


class TaskExecutor:
    """Calls a registered function."""

    def __init__(self, child: PoolChild) -> None:
        self.child = child

    def execute(self, work: Work, log: Log) -> Outcome:
        """Call the function; its return value is the output."""
        name = str(work.payload.get("task"))
        args, kwargs = work.payload.get("args") or [], work.payload.get("kwargs") or {}
        try:
            task_registry.check_arguments(name, args, kwargs)
        except (TypeError, LookupError) as error:
            note(log, str(error))
            return Outcome("failed", reason="definition", error=str(error))
        entry = task_registry.registered()[name]
        with self.child.executing(work) as place:
            cause = self.child.end_cause(place)
            if cause != slots.CAUSE_NONE:
                return ended_outcome(cause, work)
            try:
                return self._call(entry, (args, kwargs), work, place, log)
            finally:
                kill_leftovers()
                close_open_transactions()

    def _call(
        self,
        entry: TaskEntry,
        arguments: tuple[list[Any], dict[str, Any]],
        work: Work,
        place: Place,
        log: Log,
    ) -> Outcome:
        args, kwargs = arguments
        kwargs = {**kwargs, **given_by_chrono(entry, arguments, work, place)}
        armed = interrupt.Armed(place.entry, place.record, self.child.share.table.fence_ns)
        try:
            with (
                captured(log),
                environment({**work.env, **work.identity()}),
                interrupt.interruptible(armed),
            ):
                value = entry.function(*args, **kwargs)
        except interrupt.RunInterrupted as error:
            tell(error, log)
            return ended_outcome(error.cause, work)
        except BaseException as error:
            if isinstance(error, SystemExit) and terminate_handler_fired():
                raise  # this process is being ended; that is no outcome of the task
            return raised(error, log)
        cause = armed.cause()
        if cause != slots.CAUSE_NONE:
            return ended_outcome(cause, work)  # it swallowed the interrupt and then came to an end
        return returned(value, log)


def given_by_chrono(
    entry: TaskEntry, arguments: tuple[list[Any], dict[str, Any]], work: Work, place: Place
) -> dict[str, Any]:
    """Return the keywords that the task takes besides its own arguments."""
    given: dict[str, Any] = {}
    if entry.takes_context:
        given[task_registry.CONTEXT_KEYWORD] = context_of(work, place)
    if entry.wants_inputs(*arguments):
        given[task_registry.INPUTS_KEYWORD] = work.inputs or {}
    return given


def context_of(work: Work, place: Place) -> RunContext:
    """Return what the task may know of its run."""
    return RunContext(
        id=work.run_id,
        job_id=work.job_id,
        attempt=work.attempt,
        logical_date=work.logical_date,
        scheduled_for=work.scheduled_for,
        logger=logging.getLogger(RUN_LOGGER),
        report=place.entry.set_progress,
        inputs=work.inputs or {},
    )


def tell(error: BaseException, log: Log) -> None:
    """Write the traceback into the log, from the task's own frame on."""
    own = error.__traceback__.tb_next if error.__traceback__ else None
    lines = traceback.format_exception(type(error), error, own)
    log.write("".join(lines).encode(errors="replace"))


def raised(error: BaseException, log: Log) -> Outcome:
    """Return the outcome of a task that raised."""
    tell(error, log)
    last = traceback.format_exception_only(error)[-1].strip()
    return Outcome("failed", reason="exception", error=last)


def returned(value: object, log: Log) -> Outcome:
    """Return the outcome of a task that came to its end; what it returns must be a JSON value."""
    try:
        text = json_text(value)
    except OutputError as error:
        return bad_output(f"return value {error}", log)
    if len(text) > MAX_OUTPUT_BYTES:
        size = f"{len(text)} bytes of JSON, more than {MAX_OUTPUT_BYTES}"
        return bad_output(f"return value is {size}", log)
    return Outcome("succeeded", output=value)


def bad_output(error: str, log: Log) -> Outcome:
    """Return the outcome of a task whose return value cannot be kept."""
    note(log, error)
    return Outcome("failed", reason="output", error=error)


@contextmanager
def captured(log: Log) -> Iterator[None]:
    """Carry prints and log records into the attempt's log within the block."""
    handler = LogHandler(log)
    run_logger, root = logging.getLogger(RUN_LOGGER), logging.getLogger()
    run_logger.addHandler(handler)
    root.addHandler(handler)
    stream = LogText(log)
    try:
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            yield
    finally:
        root.removeHandler(handler)
        run_logger.removeHandler(handler)


@contextmanager
def environment(names: Mapping[str, str]) -> Iterator[None]:
    """Let what the task spawns know its run, and nothing after it."""
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def kill_leftovers() -> None:
    """End whatever the task spawned and left, daemons too: this process is their subreaper."""
    pause = KILL_PAUSE_SEC
    while proctree.reap_children():
        proctree.kill(os.getpid())
        time.sleep(pause)
        pause = min(2 * pause, 0.5)


def close_open_transactions() -> None:
    """Drop a connection that the task left within a transaction: its outcome would drown in it."""
    for connection in connections.all(initialized_only=True):
        raw = connection.connection
        is_open = raw is not None and raw.info.transaction_status.name != "IDLE"
        if is_open or connection.in_atomic_block or (raw is not None and not connection.autocommit):
            connection.close()
            del connections[connection.alias]  # the wrapper would go on as if within its block
