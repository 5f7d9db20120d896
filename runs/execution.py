"""From a message to a recorded outcome: claim → prepare → start and collect → decide → finish.

A step that talks to PostgreSQL waits it out: a claim or a finish whose COMMIT got no answer is read
back by claim_id, so that an outage costs time and neither an outcome nor a second execution.
"""

import json
import logging
import os
import random
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from django.conf import settings
from django.db import DataError, InterfaceError, OperationalError, connection

from chronoproject.process import first_line
from runs import lifecycle, pool_child, retries, slots
from runs.executors import interrupt
from runs.executors.base import Executor, Outcome, Work, note
from runs.executors.command import CommandExecutor
from runs.executors.http_call import HttpExecutor
from runs.executors.http_guard import AllowList
from runs.executors.output import NUL_IN_JSON
from runs.executors.shim_client import ShimError
from runs.executors.task import TaskExecutor
from runs.hooks import run_hooks
from runs.lineup import Lineup
from runs.log_stream import Flusher, LogWriter, log_prefix
from runs.pool_child import PoolChild
from runs.records import ClaimedRun, Held, Progress, Result, RunRef
from runs.states import Trigger
from runs.storage import ChunkStore, backend

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOST_CONNECTION = (OperationalError, InterfaceError)
FIRST_PAUSE_SEC, MAX_PAUSE_SEC = 0.05, 2.0
RECORD_WITHIN_SEC = 0.1  # outcomes of one message are recorded together, but not later than this
MAX_ERROR_CHARS = 2000
EXIT_SHIM_GONE = 70


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt with its outcome, ready to be recorded."""

    run: ClaimedRun
    outcome: Outcome
    output_ref: str
    progress: Progress | None = None

    @property
    def held(self) -> Held:
        """Return the attempt's fence."""
        return held_of(self.run)


def held_of(run: ClaimedRun) -> Held:
    """Return the fence of a claim."""
    return Held(run.run_id, run.scheduled_for, run.attempt, run.claim_id)


class Execution:
    """The steps, with what a pool child keeps from run to run."""

    def __init__(self, child: PoolChild) -> None:
        self.child = child
        self.flusher = Flusher()
        self.lineup = Lineup(self.step_aside)
        self.ended: deque[Ended] = deque()
        self.store = ChunkStore(backend(), settings.CHRONO_SPOOL_DIR)
        self.executors: dict[str, Executor] = {
            "command": CommandExecutor(child),
            "http": HttpExecutor(child, AllowList(settings.CHRONO_HTTP_ALLOW)),
            "task": TaskExecutor(child),
        }

    def execute(self, refs: Sequence[RunRef]) -> int:
        """Execute the runs that can be claimed; return how many those were."""
        interrupt.install()
        size = self.child.capacity
        batches = [refs[start : start + size] for start in range(0, len(refs), size)]
        return sum(self._execute_batch(batch) for batch in batches)

    def _execute_batch(self, refs: Sequence[RunRef]) -> int:
        claimed, claimed_at = self.claim(refs)
        works = [prepare(run) for run in claimed]
        self.child.hold(works, claimed_at=claimed_at)
        self.lineup.put(zip(claimed, works, strict=True))
        record_at = 0.0
        while (following := self.lineup.take()) is not None:
            ended = self.attempt(*following)
            record_at = record_at if self.ended else time.monotonic() + RECORD_WITHIN_SEC
            self.ended.append(ended)
            if time.monotonic() >= record_at:
                self.record_ended()
        self.record_ended()
        return len(claimed)

    def record_ended(self) -> None:
        """Record what has ended, each attempt by the one thread that gets it."""
        mine: list[Ended] = []
        with suppress(IndexError):
            while True:
                mine.append(self.ended.popleft())
        self.record(mine)

    def step_aside(self, unstarted: Sequence[tuple[ClaimedRun, Work]]) -> None:
        """Let nothing wait for a long run: what ended before it, and what stands behind it.

        Called from the line's own thread. Runs are given back until the database answers, for
        nobody else will start them.
        """
        held = [held_of(run) for run, _ in unstarted]
        try:
            with self.letting_go([one.run_id for one in held]):
                wait_out(partial(lifecycle.lose, held, reason="put_back"))
            self.record_ended()
        finally:
            connection.close()

    @contextmanager
    def letting_go(self, run_ids: Sequence[uuid.UUID]) -> Iterator[None]:
        """Hold the runs no more after the block, nor after a statement in it has failed for good.

        Their leases then run out. When this process ends, the main process judges by what it held.
        """
        try:
            yield
        except Exception:
            self.child.release(run_ids)
            raise
        self.child.release(run_ids)

    # --- claim ------------------------------------------------------------------------------

    def claim(self, refs: Sequence[RunRef]) -> tuple[list[ClaimedRun], int]:
        """Claim what can be claimed; also return when the claim was sent."""
        pauses = Pauses()
        while not self.child.share.table.draining:
            claim_id, sent_at = uuid.uuid4(), slots.boottime_ns()
            try:
                claimed = lifecycle.claim(
                    refs,
                    worker_id=self.child.share.worker_id,
                    claim_id=claim_id,
                    lease_sec=settings.CHRONO_LEASE_SEC,
                )
            except LOST_CONNECTION as error:
                pauses.after(error)
                claimed = self._read_back_claim(refs, claim_id, pauses)
                if not claimed:
                    continue  # it was never committed: claim afresh
            return claimed, sent_at
        return [], 0

    def _read_back_claim(
        self, refs: Sequence[RunRef], claim_id: uuid.UUID, pauses: "Pauses"
    ) -> list[ClaimedRun]:
        while not self.child.share.table.draining:
            try:
                return lifecycle.read_back_claim(refs, claim_id=claim_id)
            except LOST_CONNECTION as error:
                pauses.after(error)
        return []

    # --- start and collect ------------------------------------------------------------------

    def attempt(self, run: ClaimedRun, work: Work) -> Ended:
        """Execute one attempt and close its log."""
        if self.child.share.table.draining:
            return Ended(run, Outcome("lost", reason="put_back"), "")
        place = self.child.places[work.run_id]
        place.record.timeout_retry_in = retry_after_timeout(run)
        log = LogWriter(
            self.store,
            log_prefix(work.scheduled_for, work.run_id, work.attempt, work.claim_id),
            max_bytes=settings.CHRONO_LOG_MAX_BYTES,
            on_buffered=None if work.kind == "command" else self.flusher.watch,
            on_stored=place.entry.set_stored,
        )
        try:
            outcome = self._run(run, work, log)
        finally:
            self.flusher.forget()
            output_ref = log.close()
        return Ended(run, outcome, output_ref, place.entry.progress())

    def _run(self, run: ClaimedRun, work: Work, log: LogWriter) -> Outcome:
        executor = self.executors.get(work.kind)
        if executor is None:
            note(log, f"unknown kind {work.kind!r}")
            return Outcome("failed", reason="definition", error=f"unknown kind {work.kind!r}")
        try:
            return executor.execute(with_inputs(run, work), log)
        except ShimError:
            log.flush()
            raise
        except Exception as error:
            logger.exception("run %s: the executor failed", work.run_id)
            note(log, f"internal error: {error}")
            return Outcome("failed", reason="internal", error=f"internal error: {error}")

    # --- finish -----------------------------------------------------------------------------

    def record(self, ended: Sequence[Ended]) -> None:
        """Write the outcomes down, however long that takes; then let the runs go."""
        with self.letting_go([one.run.run_id for one in ended]):
            self._lose([one for one in ended if one.outcome.result == "lost"])
            results = [result_of(one) for one in ended if one.outcome.result != "lost"]
            try:
                self._finish(results)
            except DataError as error:
                logger.warning("an outcome cannot be stored: %s", first_line(error))
                self._finish([without_output(result, error) for result in results])

    def _finish(self, results: Sequence[Result]) -> None:
        pauses = Pauses()
        left = list(results)
        while left:
            try:
                if pauses.count:
                    done = {run.run_id for run in lifecycle.read_back_finish(left)}
                    left = [result for result in left if result.run_id not in done]
                finished = lifecycle.finish(left)
            except LOST_CONNECTION as error:
                pauses.after(error)
                continue
            for stale in {result.run_id for result in left} - {run.run_id for run in finished}:
                logger.warning("run %s: its lease had passed to another, outcome dropped", stale)
            return

    def _lose(self, ended: Sequence[Ended]) -> None:
        by_reason: dict[str, list[Held]] = defaultdict(list)
        for one in ended:
            is_free = one.outcome.reason in lifecycle.FREE
            by_reason[one.outcome.reason if is_free else "worker_lost"].append(one.held)
        for reason, held in by_reason.items():
            wait_out(partial(lifecycle.lose, held, reason=reason))


class Pauses:
    """Growing pauses while the database is away; each drops the connection first."""

    def __init__(self) -> None:
        self.count = 0

    def after(self, error: Exception) -> None:
        """Wait a moment after a failure."""
        if self.count == 0:
            logger.warning("database: %s; waiting for it", first_line(error))
        connection.close()
        span = min(MAX_PAUSE_SEC, FIRST_PAUSE_SEC * 2**self.count)
        self.count += 1
        time.sleep(span * random.uniform(0.5, 1))  # noqa: S311 - spreads the pool children


def wait_out(statement: Callable[[], T]) -> T:
    """Run a statement that may be repeated, as often as it takes for the database to answer."""
    pauses = Pauses()
    while True:
        try:
            return statement()
        except LOST_CONNECTION as error:
            pauses.after(error)


# --- prepare and decide ---------------------------------------------------------------------


def prepare(run: ClaimedRun) -> Work:
    """Return the work of a claimed run: its definition, with what a trigger overrides."""
    definition, override = run.definition, run.override or {}
    payload = dict(definition.get("payload") or {})
    env = {str(name): str(value) for name, value in (definition.get("env") or {}).items()}
    if definition.get("kind") == "command":
        env |= {str(name): str(value) for name, value in (override.get("env") or {}).items()}
    else:
        payload |= override
    if "command" in definition:
        payload.setdefault("command", definition["command"])
    return Work(
        run_id=run.run_id,
        job_id=run.job_id,
        scheduled_for=run.scheduled_for,
        logical_date=run.logical_date,
        attempt=run.attempt,
        claim_id=run.claim_id,
        kind=definition.get("kind", "command"),
        payload=payload,
        env=env,
        timeout_sec=definition.get("timeoutSec", 3600),
        kill_grace_sec=definition.get("killGraceSec", 10),
    )


def with_inputs(run: ClaimedRun, work: Work) -> Work:
    """Return the work with what its upstreams left; a job without upstreams pays nothing.

    It is read at the start of each attempt, since an upstream may have been run again meanwhile.
    """
    has_upstreams = run.definition.get("dependsOn") or run.trigger == Trigger.DEPENDENCY
    if not has_upstreams or work.kind == "http" or run_hooks.inputs is None:
        return work
    read = partial(run_hooks.inputs, RunRef(run.run_id, run.scheduled_for))
    return replace(work, inputs=wait_out(read))


def decide(run: ClaimedRun, outcome: Outcome) -> retries.RetryIn | retries.Dead:
    """Return what follows a failed attempt of this run."""
    return retries.decide(
        outcome,
        run.attempt,
        run.attempt_limit,
        retries.Backoff.of(run.definition),
        run.definition.get("retryOn"),
        random.random(),  # noqa: S311 - spreads retries
    )


def retry_after_timeout(run: ClaimedRun) -> float:
    """Decide a time-out beforehand, for a pool child that will be killed by it; -1: no retry."""
    decision = decide(run, Outcome("timeout", reason="timeout"))
    return decision.sec if isinstance(decision, retries.RetryIn) else -1.0


def result_of(ended: Ended) -> Result:
    """Return what is written down of an attempt."""
    run, outcome = ended.run, ended.outcome
    result = Result(
        run_id=run.run_id,
        scheduled_for=run.scheduled_for,
        attempt=run.attempt,
        claim_id=run.claim_id,
        outcome=outcome.result,
        status="succeeded",
        reason=outcome.reason,
        exit_code=outcome.exit_code,
        error=outcome.error.replace("\0", "\ufffd")[:MAX_ERROR_CHARS],
        output_ref=ended.output_ref,
        output=storable(outcome.output),
        limit_key=run.limit_key,
        progress=ended.progress,
    )
    if outcome.result == "succeeded":
        return result
    if outcome.result == "cancelled":
        return replace(result, status="cancelled")
    decision = decide(run, outcome)
    if isinstance(decision, retries.RetryIn):
        return replace(result, status="retrying", retry_in_sec=decision.sec)
    return replace(result, status="dead")


def storable(output: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Return the output, without what PostgreSQL's jsonb refuses: NUL and lone surrogates."""
    text = json.dumps(output)
    if "\\u0000" not in text and "\\ud" not in text:
        return output
    cleaned = json.dumps(output, ensure_ascii=False).encode(errors="replace").decode()
    return json.loads(NUL_IN_JSON.sub("\\1\ufffd", cleaned))


def without_output(result: Result, error: Exception) -> Result:
    """Return the result with no output: what the database refuses must not hide the outcome."""
    return replace(
        result, output=None, error=f"{result.error} (output: {first_line(error)})".strip()
    )


_execution: Execution | None = None


def execute(refs: Sequence[RunRef]) -> int:
    """Execute runs in this pool child; return how many were claimed."""
    global _execution
    try:
        if _execution is None:
            _execution = Execution(pool_child.current())
        return _execution.execute(refs)
    except ShimError:
        # Without its shim this child can promise nothing. The main process finds it dead, sees
        # that nothing of the run is left, and ends the attempt as crashed.
        logger.exception("pool child %d gives up", os.getpid())
        os._exit(EXIT_SHIM_GONE)
