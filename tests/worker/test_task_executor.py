"""Python tasks in a pool child: what they see, say and return, and what ends them."""

import itertools
import os
import time
from typing import Any

import pytest

from runs import slots
from tests.worker.harness import Harness, eventually, harness, kill, marked, task

MODULES = {"CHRONO_TASK_MODULES": "runs.builtin_tasks,tests.worker.sample_tasks"}
_numbers = itertools.count(1)


def marker() -> str:
    return f"3700.{os.getpid()}{next(_numbers):04d}"


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in MODULES.items():
        monkeypatch.setenv(name, value)


def test_outcomes() -> None:
    run_id = "01a22834-4178-84de-8b5f-3873585a0bfe"
    works = [
        task("sample.talk", "this", run_id=run_id, attempt=4, env={"SAMPLE": "yes"}),
        task("sample.environment"),
        task("sample.raise", "argument"),
        task("sample.raise", "exit"),
        task("sample.raise", "interrupt"),
        task("sample.return", "set"),
        task("sample.return", "nan"),
        task("sample.return", "long"),
        task("sample.return", "nul"),
        task("sample.return", "half"),
        task("sample.nosuch"),
        task("sample.talk"),
        task("chrono.sleep", "a"),
        task("chrono.sleep", True),
        task("chrono.noop"),
    ]
    with harness(works) as h:
        ended = [h.event("outcome") for _ in works]
    talk, environment, *failures = ended[:-1]
    assert_talk(talk, run_id)
    assert environment["output"] == ["CHRONO_RUN_ID"]
    assert all(one["result"] == "failed" and one["error"] in one["log"] for one in failures)
    assert [(one["reason"], one["error"]) for one in failures] == [
        ("exception", "ValueError: bad argument"),
        ("exception", "SystemExit: told to"),
        ("exception", "KeyboardInterrupt"),
        ("output", "return value is not JSON: Object of type set is not JSON serializable"),
        ("output", "return value is not JSON: Out of range float values are not JSON compliant"),
        ("output", "return value is 100002 bytes of JSON, more than 65536"),
        ("output", "return value holds a NUL character"),
        ("output", "return value holds half of a surrogate pair"),
        ("definition", "no task 'sample.nosuch' is registered"),
        ("definition", "missing a required argument: 'text'"),
        ("exception", "TypeError: seconds must be a number, not 'a'"),
        ("exception", "TypeError: seconds must be a number, not True"),
    ]
    assert (ended[-1]["result"], ended[-1]["log"]) == ("succeeded", "")


def assert_talk(talk: dict[str, Any], run_id: str) -> None:
    assert talk["result"] == "succeeded"
    assert talk["output"] == {
        "attempt": 4,
        "env": {"CHRONO_RUN_ID": run_id, "SAMPLE": "yes"},
        "child": [f"CHRONO_RUN_ID={run_id}"],
    }
    assert talk["log"].splitlines() == [
        "printed this",
        "to stderr",
        "DEBUG chrono.run: told the run's logger",
        "WARNING some.library: told a library's logger",
    ]


def test_a_limit_interrupts_and_then_kills() -> None:
    """A task that hears the interrupt times out; one that does not goes with its pool child."""
    with harness(
        [task("chrono.sleep", 60, timeout_sec=1, grace_sec=30)],
        [task("sample.stubborn", 2, timeout_sec=1, grace_sec=30)],
        [task("sample.stubborn", 60, timeout_sec=1, grace_sec=0.5)],
        [task("sample.hold_gil", timeout_sec=1, grace_sec=0.5)],
        reclaim=True,
    ) as h:
        for number in (0, 1):
            outcome = h.event("outcome", child=number)
            assert (outcome["result"], outcome["reason"]) == ("timeout", "timeout")
        assert [h.event("owed")["cause"] for _ in range(2)] == [slots.CAUSE_TIMEOUT] * 2


def test_cancel_fence_and_loss() -> None:
    with harness(
        [task("chrono.sleep", 1e308, grace_sec=30)],
        [task("sample.stubborn", 60, grace_sec=0.3)],
        reclaim=True,
    ) as h:
        for entry, record in h.executing():
            entry.ask_cancel(record.seq)
        assert h.event("outcome", child=0)["result"] == "cancelled"
        assert h.event("owed")["cause"] == slots.CAUSE_CANCEL
    with harness([task("chrono.sleep", 60, grace_sec=30)], fence_sec=1, reclaim=True) as h:
        started = time.monotonic()
        assert h.event("owed")["cause"] == slots.CAUSE_FENCED
        assert time.monotonic() - started < 10


def test_nothing_starts_on_an_aged_claim() -> None:
    with harness([task("sample.talk", "this", age_sec=5)], fence_sec=2) as h:
        outcome = h.event("outcome")
    assert (outcome["result"], outcome["reason"], outcome["log"]) == ("lost", "fenced", "")


def test_what_a_task_spawned_dies_with_it() -> None:
    mark = marker()
    with harness([task("sample.spawn", mark)]) as h:
        assert h.event("outcome")["result"] == "succeeded"
        assert marked(mark) == []


@pytest.mark.parametrize("whom", ["child", "main", "shim"])
def test_what_a_task_spawned_dies_with_its_worker(whom: str) -> None:
    mark = marker()
    with harness([task("sample.spawn_and_wait", mark)], reclaim=True) as h:
        h.executing()
        eventually(lambda: len(marked(mark)) >= 2)
        victim = {"child": h.children[0], "main": h.main, "shim": h.shims[0]}[whom]
        kill(victim)
        if whom != "main":
            assert owed_cause(h) == slots.CAUSE_NONE
            assert marked(mark) == []
        eventually(lambda: not marked(mark), within_sec=5)


def owed_cause(h: Harness) -> int:
    cause: int = h.event("owed")["cause"]
    return cause
