"""Python tasks: names, signatures, contexts."""

import logging
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django.fixtures import Settings

from runs import slots, task_registry
from runs.task_registry import RunContext, check_arguments, registered, task


@pytest.fixture(autouse=True)
def _own_registry() -> Iterator[None]:
    before = dict(registered())
    yield
    task_registry._tasks.clear()
    task_registry._tasks.update(before)


def test_the_built_in_tasks_are_registered() -> None:
    assert {"chrono.noop", "chrono.echo", "chrono.sleep", "chrono.fail"} <= set(registered())


def test_a_module_that_cannot_be_imported_is_named(settings: Settings) -> None:
    settings.CHRONO_TASK_MODULES = ["runs.builtin_tasks", "no.such.module"]
    with pytest.raises(ImproperlyConfigured, match=r"CHRONO_TASK_MODULES: no\.such\.module"):
        task_registry.load_task_modules.__wrapped__()


def test_a_task_stays_a_plain_function() -> None:
    @task("test.double")
    def double(number: int) -> int:
        return 2 * number

    assert double(4) == 8
    assert registered()["test.double"].function is double


def test_a_name_is_taken_once() -> None:
    @task("test.once")
    def first() -> None: ...

    task("test.once")(first)  # a module that is imported again registers the very same function
    with pytest.raises(ValueError, match="registered twice"):

        @task("test.once")
        def second() -> None: ...


def test_arguments_are_checked_and_named() -> None:
    @task("test.copy")
    def copy(source: str, *, retries: int = 3) -> None: ...

    check_arguments("test.copy", ["a"], {})
    check_arguments("test.copy", [], {"source": "a", "retries": 1})
    with pytest.raises(TypeError, match="source"):
        check_arguments("test.copy", [], {})
    with pytest.raises(TypeError, match="target"):
        check_arguments("test.copy", ["a"], {"target": "b"})
    with pytest.raises(TypeError, match="too many positional"):
        check_arguments("test.copy", ["a", "b"], {})


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(LookupError, match="nosuch"):
        check_arguments("test.nosuch", [], {})


def test_inputs_are_given_where_the_job_gives_none_itself() -> None:
    @task("test.takes_inputs")
    def takes_inputs(own: str, inputs: dict[str, object], *rest: int) -> None: ...

    @task("test.takes_all_else")
    def takes_all_else(**kwargs: object) -> None: ...

    entry = registered()["test.takes_inputs"]
    assert entry.wants_inputs(["own"], {})
    assert not entry.wants_inputs(["own", {}], {})
    assert not entry.wants_inputs([], {"own": "own", "inputs": {}})
    assert not registered()["test.takes_all_else"].wants_inputs([], {})
    check_arguments("test.takes_inputs", ["own"], {})
    check_arguments("test.takes_inputs", ["own", {}, 1], {})
    with pytest.raises(TypeError, match="own"):
        check_arguments("test.takes_inputs", [], {})
    with pytest.raises(TypeError, match="multiple values"):
        check_arguments("test.takes_inputs", ["own"], {"own": "own"})


def test_the_context_is_given_to_those_who_take_it() -> None:
    @task("test.plain")
    def plain() -> None: ...

    @task("test.asks")
    def asks(*, run: RunContext) -> None: ...

    @task("test.takes_all")
    def takes_all(**kwargs: object) -> None: ...

    tasks = registered()
    assert not tasks["test.plain"].takes_context
    assert tasks["test.asks"].takes_context
    assert tasks["test.takes_all"].takes_context
    check_arguments("test.asks", [], {})
    with pytest.raises(TypeError, match="run"):
        check_arguments("test.asks", [], {"run": 1})
    with pytest.raises(TypeError, match="run"):
        check_arguments("test.plain", [], {"run": 1})


@pytest.mark.parametrize(
    ("told", "reported"),
    [
        ((3, 10), (3, 10)),
        ((1.9, 1e308), (1, 2**63 - 1)),
        ((-1, 2**64), (0, 2**63 - 1)),
        ((float("nan"), float("inf")), (0, 2**63 - 1)),
    ],
)
def test_progress_of_any_size_can_be_reported(
    told: tuple[float, float], reported: tuple[int, int]
) -> None:
    table = slots.SlotTable.create(slots=1, entries=1, fence_ns=1)
    entry = table.slots[0].entries[0]
    at = datetime(2030, 1, 1, tzinfo=UTC)
    logger = logging.getLogger("test")
    run = RunContext(uuid.uuid4(), uuid.uuid4(), 1, at, at, logger, entry.set_progress)
    run.progress(*told)
    assert entry.progress() == reported
