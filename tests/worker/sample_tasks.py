"""Tasks that the tests of the task executor register."""

import contextlib
import logging
import os
import subprocess
import sys
import time
from typing import Any

from runs.task_registry import RunContext, task


@task("sample.talk")
def talk(text: str, *, run: RunContext) -> dict[str, Any]:
    print("printed", text)  # noqa: T201 - what is tested
    print("to stderr", file=sys.stderr)  # noqa: T201
    run.logger.debug("told the run's logger")
    logging.getLogger("some.library").warning("told a library's logger")
    logging.getLogger("runs.execution").warning("the worker's own affairs")
    run.progress(3, 10)
    child = subprocess.run(["env"], capture_output=True, text=True, check=True)
    return {
        "attempt": run.attempt,
        "env": {k: v for k, v in os.environ.items() if k.startswith(("CHRONO_RUN", "SAMPLE"))},
        "child": [line for line in child.stdout.splitlines() if line.startswith("CHRONO_RUN_ID")],
    }


@task("sample.inputs")
def take_inputs(own: str, inputs: dict[str, Any] | None = None, *, run: RunContext) -> Any:  # noqa: ANN401
    return {"own": own, "keyword": inputs, "run": run.inputs}


@task("sample.progress")
def tell_progress(path: str, *, run: RunContext) -> None:
    """Tell 3 of 10, and 10 of 10 at the end, which is when the file appears."""
    run.progress(3, 10)
    while not os.path.exists(path):
        time.sleep(0.05)
    run.progress(10, 10)


@task("sample.progress_and_raise")
def tell_and_raise(*, run: RunContext) -> None:
    run.progress(10**30, -5)
    raise ValueError("after some progress")


@task("sample.environment")
def environment() -> list[str]:
    return sorted(name for name in os.environ if name.startswith(("CHRONO_RUN_ID", "SAMPLE")))


@task("sample.raise")
def raise_error(kind: str) -> None:
    if kind == "exit":
        sys.exit("told to")
    if kind == "interrupt":
        raise KeyboardInterrupt
    raise ValueError(f"bad {kind}")


@task("sample.return")
def return_value(kind: str) -> object:
    values = {
        "set": {1, 2},
        "nan": float("nan"),
        "long": "x" * 100_000,
        "nul": "a\0b",
        "half": "\ud800",
    }
    return values[kind]


@task("sample.stubborn")
def stubborn(seconds: float) -> str:
    """Swallow every interrupt and go on."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(Exception):
            time.sleep(0.05)
    return "came to its end"


@task("sample.progress_then_stubborn")
def progress_then_stubborn(*, run: RunContext) -> str:
    run.progress(4, 5)
    return stubborn(60)


@task("sample.hold_gil")
def hold_gil() -> None:
    """Compute for hours in C with the GIL held: no Python runs in this process meanwhile."""
    sum(range(10**13))


@task("sample.spawn")
def spawn(mark: str) -> None:
    """Leave a daemon behind, and a plain child."""
    subprocess.run(["sh", "-c", f"(setsid sleep {mark} &) ; sleep {mark} &"], check=True)


@task("sample.spawn_and_wait")
def spawn_and_wait(mark: str) -> None:
    """Leave a daemon behind and stay."""
    subprocess.run(["sh", "-c", f"(setsid sleep {mark} &) ; sleep {mark}"], check=True)
