"""The supervisor's loop, with small processes of a line of shell."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chronoproject import linux
from chronoproject.up import console
from chronoproject.up.child import STEADY_SEC, Service, restart_delay_sec
from chronoproject.up.console import Console
from chronoproject.up.faults import StopRequestedError, UpError
from chronoproject.up.supervisor import Supervisor
from tests.up.standin import eventually

PROMISED_RESTART_SEC = 45


class Watched(Supervisor):
    """A supervisor whose words can be read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.changes = 0
        super().__init__(Console(directory, terminal=None), self._count)

    def _count(self) -> None:
        self.changes += 1

    def log(self, name: str) -> str:
        path = self.directory / f"{name}.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def pump_until(self, is_true: Callable[[], bool]) -> bool:
        return self.wait(is_true, 20.0)


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(tmp_path)
    with watched.listening():
        yield watched
        watched.stop([])
    watched.console.close()


def shell(name: str, script: str, *, grace_sec: float = 5.0, is_once: bool = False) -> Service:
    launch = linux.Launch(argv=("/bin/sh", "-c", script), env=dict(os.environ), cwd=Path("/"))
    return Service(name, lambda: launch, grace_sec, is_once=is_once)


def test_lines_are_kept_by_name(supervisor: Watched) -> None:
    supervisor.add(shell("talker", "echo one; echo two >&2; printf three; exec sleep 60"))
    assert supervisor.pump_until(lambda: "two" in supervisor.log("talker"))
    supervisor.children["talker"].kill()
    assert supervisor.pump_until(lambda: "three" in supervisor.log("talker"))
    assert [line.split(" ", 1)[1] for line in supervisor.log("talker").splitlines()][:3] == [
        "one",
        "two",
        "three",
    ]


def test_a_process_that_ends_is_started_again_with_back_off_and_said_so(
    supervisor: Watched,
) -> None:
    child = supervisor.add(shell("brief", "exit 3"))
    began = time.monotonic()
    assert supervisor.pump_until(lambda: child.exits == 3)
    assert time.monotonic() - began >= restart_delay_sec(1) + restart_delay_sec(2)
    said = supervisor.log("up")
    assert "exited with 3" in said
    assert "starting it again in 0.5 s" in said
    assert "starting it again in 1 s" in said
    assert supervisor.changes == 3


def test_back_off_grows_and_stays_within_the_promise() -> None:
    delays = [restart_delay_sec(failures) for failures in range(1, 200)]
    assert delays == sorted(delays)
    assert delays[0] < 1
    assert delays[-1] < PROMISED_RESTART_SEC / 2


def test_a_steady_process_is_started_again_at_once(supervisor: Watched) -> None:
    child = supervisor.add(shell("steady", "exec sleep 60"))
    child.failures = 10
    assert child.plan_restart(STEADY_SEC) == restart_delay_sec(1)


def test_what_is_left_of_a_dead_processes_group_is_killed(supervisor: Watched) -> None:
    child = supervisor.add(shell("parent", "sleep 600 & echo $!; exec sleep 600"))
    assert supervisor.pump_until(lambda: supervisor.log("parent") != "")
    grandchild = int(supervisor.log("parent").split()[-1])
    child.signal(signal.SIGKILL)
    assert supervisor.pump_until(lambda: child.exits == 1)
    assert eventually(lambda: linux.start_ticks(grandchild) is None)


def test_a_signal_to_a_process_that_has_just_died_is_no_fault(supervisor: Watched) -> None:
    child = supervisor.add(shell("brief", "exit 5"))
    pid = child.pid
    assert pid is not None
    assert eventually(lambda: linux.start_ticks(pid) is None)
    child.signal(signal.SIGTERM)
    assert supervisor.pump_until(lambda: child.exits == 1)
    assert child.last_code == 5


def test_a_missing_program_is_a_fault_at_first(supervisor: Watched) -> None:
    launch = linux.Launch(argv=("/nowhere/program",), env={}, cwd=Path("/"))
    with pytest.raises(UpError, match=r"lost does not start: .*No such file"):
        supervisor.add(Service("lost", lambda: launch))


def test_a_start_that_fails_later_is_tried_again(supervisor: Watched) -> None:
    supervisor.add(shell("fickle", "exit 0"))
    child = supervisor.children["fickle"]
    missing = linux.Launch(argv=("/nowhere/program",), env={}, cwd=Path("/"))
    child.service = Service("fickle", lambda: missing)
    assert supervisor.pump_until(lambda: "fickle does not start" in supervisor.log("up"))
    child.service = shell("fickle", "exec sleep 60")
    assert supervisor.pump_until(lambda: child.process is not None)


def test_a_run_ends_with_its_code_and_its_words(supervisor: Watched) -> None:
    said: list[str] = []
    assert supervisor.run(shell("once", "echo done; exit 4", is_once=True), said.append) == 4
    assert said == ["done"]
    assert "once" not in supervisor.children


def test_stages_are_stopped_in_order_and_strays_first(supervisor: Watched) -> None:
    for name in ("last", "first", "stray"):
        supervisor.add(shell(name, "exec sleep 60"))
    supervisor.stop([["first"], ["last"]])
    said = [line.split()[1] for line in supervisor.log("up").splitlines()]
    assert said == ["stray", "first", "last"]
    assert supervisor.children == {}


def test_what_minds_no_signal_is_killed_after_its_grace(supervisor: Watched) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 1; done"
    child = supervisor.add(shell("stubborn", script, grace_sec=0.3))
    assert supervisor.pump_until(lambda: "ready" in supervisor.log("stubborn"))
    supervisor.stop([["stubborn"]])
    assert child.process is None
    assert "stubborn does not stop: killed" in supervisor.log("up")


def test_a_second_signal_does_not_wait_for_running_jobs(supervisor: Watched) -> None:
    script = "trap 'kill -INT $PPID' TERM; echo ready; while :; do sleep 0.1; done"
    supervisor.add(shell("busy", script, grace_sec=600))
    assert supervisor.pump_until(lambda: "ready" in supervisor.log("busy"))
    began = time.monotonic()
    supervisor.stop([["busy"]])  # its TERM makes it send us the second signal
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_asks_to_stop(supervisor: Watched, sig: signal.Signals) -> None:
    os.kill(os.getpid(), sig)
    with pytest.raises(StopRequestedError):
        supervisor.pump_until(lambda: False)


def test_children_die_with_the_supervisor(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    parent = os.fork()
    if parent == 0:  # a supervisor that is killed before it can stop anything
        watched = Watched(tmp_path)
        child = watched.add(shell("orphan", "exec sleep 600"))
        os.write(writer, str(child.pid).encode())
        time.sleep(600)
    orphan = int(os.read(reader, 32))
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    os.close(reader)
    os.close(writer)
    assert eventually(lambda: linux.start_ticks(orphan) is None)


def test_a_large_log_is_put_aside_and_a_lost_one_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "LOG_BYTES", 100)
    log = console.LogFile(tmp_path / "web.log")
    for number in range(30):
        assert log.write(f"line {number:02}\n") == ""
    kept = [tmp_path / "web.log.1", tmp_path / "web.log"]
    lines = [line for path in kept for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines == [f"line {number:02}" for number in range(30 - len(lines), 30)]
    assert len(lines) > 13
    for path in kept:
        path.unlink()
    monkeypatch.setattr(log, "_looked_at", 0.0)
    log.write("again\n")
    log.close()
    assert kept[1].read_text(encoding="utf-8") == "again\n"


def test_a_log_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    log = console.LogFile(tmp_path / "missing" / "web.log")
    assert "cannot write" in log.write("one\n")
    assert log.write("two\n") == ""
    (tmp_path / "missing").mkdir()
    assert log.write("three\n") == ""
    log.close()
    assert (tmp_path / "missing" / "web.log").read_text(encoding="utf-8") == "three\n"


def test_a_terminal_that_is_held_stops_nothing(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    shown = Console(tmp_path, terminal=writer)
    for number in range(10_000):
        shown.line("talker", f"{number} {'x' * 50}")  # far beyond what the pipe holds
    os.read(reader, 1 << 20)
    shown.say("hello again")
    assert b"lines not shown" in os.read(reader, 1 << 20)
    assert "9999 x" in (tmp_path / "talker.log").read_text(encoding="utf-8")
    os.close(reader)
    shown.say("nobody reads this")
    shown.close()
    os.close(writer)
    assert "nobody reads this" in (tmp_path / "up.log").read_text(encoding="utf-8")
