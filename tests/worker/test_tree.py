"""Nothing outlives its run: four ways to hide from a kill, times everything that ends a run."""

import itertools
import os
import signal
import threading
from collections.abc import Callable

import pytest

from runs import slots
from runs.executors import namespace
from tests.worker.harness import Harness, command, eventually, harness, kill, marked

# Each leaves processes with {m} in their command line, and a main program that stays.
SHAPES = {
    "plain": "sleep {m}",
    "setsid": "setsid sleep {m} & wait",
    "double_fork": "(setsid sh -c 'sleep {m} & sleep {m}' &) ; sleep {m}",
    "ignores_term": "trap '' TERM; sleep {m} & sleep {m}; sleep {m}",
}
RENEWED = 7  # the attempt number by which a test tells its renewed execution
_numbers = itertools.count(1)


def marker() -> str:
    """Return an argument of sleep that no other process has."""
    return f"3600.{os.getpid()}{next(_numbers):04d}"


def outcomes(h: Harness) -> set[tuple[str, str]]:
    """Return how each child's next work ended."""
    events = [h.event("outcome", child=n) for n in range(len(h.children))]
    return {(event["result"], event["reason"]) for event in events}


def by_timeout(h: Harness) -> None:
    assert outcomes(h) == {("timeout", "timeout")}


def by_cancel(h: Harness) -> None:
    for entry, record in h.executing():
        entry.ask_cancel(record.seq)
    assert outcomes(h) == {("cancelled", "user")}


def by_loss(h: Harness) -> None:
    for entry, record in h.executing():
        entry.ask_kill(record.seq, slots.CAUSE_LOST)
    assert outcomes(h) == {("lost", "lost")}


def by_dead_child(h: Harness) -> None:
    for child in h.children:
        kill(child)
    assert {h.event("owed")["cause"] for _ in h.children} == {slots.CAUSE_NONE}


def by_dead_main(h: Harness) -> None:
    kill(h.main)


def by_dead_main_and_shims(h: Harness) -> None:
    for process in (h.main, *h.shims):
        kill(process)


def by_dead_shim(h: Harness) -> None:
    for shim in h.shims:
        kill(shim)
    assert {h.event("owed")["cause"] for _ in h.children} == {slots.CAUSE_NONE}


needs_root = pytest.mark.skipif(not namespace.is_possible(), reason="takes CAP_SYS_ADMIN")
ENDS = [by_timeout, by_cancel, by_loss, by_dead_child, by_dead_main, by_dead_shim]


@pytest.mark.parametrize(
    ("end", "is_isolated"),
    [
        *((end, False) for end in ENDS),
        # In a namespace the kernel does it, even when nobody of the worker is left.
        *(pytest.param(end, True, marks=needs_root) for end in [*ENDS, by_dead_main_and_shims]),
    ],
)
def test_no_process_survives(end: Callable[[Harness], None], is_isolated: bool) -> None:
    """Where the attempt is recorded, nothing is left before that; else soon after."""
    mark = marker()
    timeout_sec = 2 if end is by_timeout else 60
    plans = [
        [command(shape.format(m=mark), timeout_sec=timeout_sec, grace_sec=0.3)]
        for shape in SHAPES.values()
    ]
    with harness(*plans, reclaim=True, is_isolated=is_isolated) as h:
        h.executing()
        eventually(lambda: len(marked(mark)) >= len(SHAPES))
        end(h)
        if end not in {by_dead_main, by_dead_main_and_shims}:
            assert marked(mark) == []
        eventually(lambda: not marked(mark), within_sec=5)


def test_what_a_command_leaves_behind_dies_with_it() -> None:
    mark = marker()
    with harness([command(f"(setsid sleep {mark} > /dev/null 2>&1 &) ; echo done")]) as h:
        outcome = h.event("outcome")
        assert marked(mark) == []
    assert (outcome["result"], outcome["exit_code"], outcome["log"]) == ("succeeded", 0, "done\n")


def test_grace_and_stopped_processes() -> None:
    """A command may use its grace to end by itself; one that is stopped gets the signal too."""
    with harness(
        [command("trap 'echo bye; exit 5' TERM; sleep 60 & wait", timeout_sec=1, grace_sec=30)],
        [command("kill -STOP $$", timeout_sec=1, grace_sec=30)],
    ) as h:
        polite = h.event("outcome", child=0, within_sec=15)
        stopped = h.event("outcome", child=1, within_sec=15)
    assert (polite["result"], polite["exit_code"], polite["log"]) == ("timeout", 5, "bye\n")
    assert (stopped["result"], stopped["exit_code"]) == ("timeout", 143)


def test_an_aged_lease_kills_at_once_and_a_renewal_keeps_alive() -> None:
    """Only the second attempt is renewed here; the first one's fence falls, whatever its grace."""
    mark = marker()
    with harness(
        [command(f"trap '' TERM; sleep {mark}", grace_sec=60)],
        [command("sleep 4; echo done", grace_sec=60, attempt=RENEWED)],
        fence_sec=2,
    ) as h:
        places = h.executing()
        stop = threading.Event()

        def renew() -> None:
            while not stop.wait(0.1):
                for entry, record in places:
                    if record.attempt == RENEWED:
                        entry.renew(record.seq, slots.boottime_ns())

        renewing = threading.Thread(target=renew)
        renewing.start()
        try:
            fenced = h.event("outcome", child=0)
            assert marked(mark) == []
            kept = h.event("outcome", child=1)
        finally:
            stop.set()
            renewing.join()
    assert (fenced["result"], fenced["reason"]) == ("lost", "fenced")
    assert (kept["result"], kept["log"]) == ("succeeded", "done\n")


def test_nothing_starts_on_an_aged_claim() -> None:
    mark = marker()
    with harness([command(f"echo started; sleep {mark}", age_sec=5)], fence_sec=2) as h:
        outcome = h.event("outcome")
    assert (outcome["result"], outcome["reason"], outcome["log"]) == ("lost", "fenced", "")


def test_the_limit_does_not_need_the_pool_child() -> None:
    mark = marker()
    with harness([command(f"sleep {mark}", timeout_sec=1, grace_sec=0.3)]) as h:
        eventually(lambda: marked(mark))
        os.kill(h.children[0], signal.SIGSTOP)
        eventually(lambda: not marked(mark), within_sec=10)
        os.kill(h.children[0], signal.SIGCONT)
        assert h.event("outcome")["result"] == "timeout"


def test_sigterm_to_the_shim_alone_changes_nothing() -> None:
    """A signal to a whole process group must not end runs; only the pool child's death does."""
    with harness([command("sleep 1; echo done")]) as h:
        h.executing()
        os.kill(h.shims[0], signal.SIGTERM)
        os.kill(h.shims[0], signal.SIGINT)
        outcome = h.event("outcome")
    assert (outcome["result"], outcome["log"]) == ("succeeded", "done\n")


def test_a_command_has_no_power_over_its_shim() -> None:
    """Without root there is one user for all, and the stuck shim's kill has to do."""
    text = "for n in 1 2 3 4 5 6 7 8; do kill -CONT $PPID 2> /dev/null && echo may; done; exit 0"
    with harness([command(["sh", "-c", text]) for _ in range(60)]) as h:
        logs = {h.event("outcome")["log"] for _ in range(60)}
    assert logs == ({""} if os.geteuid() == 0 else {"may\n" * 8})


def test_a_shim_that_stands_still_is_killed_with_all_that_it_should_have_ended() -> None:
    mark = marker()
    texts = (f"trap '' TERM; sleep {mark}", f"setsid sleep {mark} & sleep {mark}")
    plans = [[command(text, timeout_sec=1, grace_sec=0.2)] for text in texts]
    with harness(*plans, reclaim=True) as h:
        h.executing()
        eventually(lambda: len(marked(mark)) >= len(texts))
        for shim in h.shims:
            os.kill(shim, signal.SIGSTOP)
        owed = [h.event("owed", within_sec=30) for _ in texts]
        assert marked(mark) == []
    assert {event["cause"] for event in owed} == {slots.CAUSE_TIMEOUT}


def test_many_short_commands_through_one_shim() -> None:
    works = [command(["true"]) if n % 2 else command("exit 7") for n in range(40)]
    with harness(works) as h:
        codes = [h.event("outcome")["exit_code"] for _ in works]
        assert list(h.work_root.iterdir()) == []
    assert codes == [7, 0] * 20


@needs_root
def test_a_namespace_shows_a_command_itself_alone() -> None:
    """Statuses, signals and failed starts come through it as they are."""
    texts: list[str | list[str]] = [
        "echo $$ $PPID; ls -d /proc/[0-9]* | wc -l; kill -9 -1; echo alive",
        "exit 7",
        "kill -SEGV $$",
        ["nosuch-program"],
        ["/etc/hostname"],
        "trap 'echo bye; exit 5' TERM; sleep 60 & wait",
        "(sleep 60 &); echo done",
    ]
    with harness(
        [command(text, timeout_sec=1, grace_sec=30) for text in texts], is_isolated=True
    ) as h:
        ended = [h.event("outcome", within_sec=15) for _ in texts]
    assert [(one["result"], one["exit_code"]) for one in ended] == [
        *[("succeeded", 0), ("failed", 7), ("failed", 139), ("failed", 127), ("failed", 126)],
        *[("timeout", 5), ("succeeded", 0)],
    ]
    first, *_, polite, _ = [one["log"] for one in ended]
    assert first.split("\n")[0] == "2 1"
    assert first.endswith("alive\n")
    assert int(first.split("\n")[1]) <= 5  # init, the shell, ls and wc
    assert polite == "bye\n"
