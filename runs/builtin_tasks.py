"""Small tasks for the demo, the benchmarks and the tests."""

import time

from runs.task_registry import RunContext, task


@task("chrono.noop")
def noop() -> None:
    """Do nothing."""


@task("chrono.echo")
def echo(text: str = "hello", *, run: RunContext) -> dict[str, str]:
    """Print and return the text."""
    print(text)  # noqa: T201 - what it is for: a task's prints are its log
    run.logger.info("run %s, attempt %d", run.id, run.attempt)
    return {"text": text, "runId": str(run.id)}


@task("chrono.sleep")
def sleep(seconds: float, *, run: RunContext) -> float:
    """Sleep, and tell how far it is."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise TypeError(f"seconds must be a number, not {seconds!r}")
    started = time.monotonic()
    while (done := time.monotonic() - started) < seconds:
        run.progress(done, seconds)
        time.sleep(min(1.0, seconds - done))
    run.progress(seconds, seconds)
    return seconds


@task("chrono.fail")
def fail(message: str = "this task always fails") -> None:
    """Raise an error."""
    raise RuntimeError(message)
