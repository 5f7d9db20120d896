"""The command line of `bin/up`."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TextIO

from chronoproject.linux import identify, start_ticks
from chronoproject.up import state
from chronoproject.up.config import ROOT, Config
from chronoproject.up.console import Console, standard_output
from chronoproject.up.faults import UpError
from chronoproject.up.home import Home
from chronoproject.up.leftovers import end_leftovers, living
from chronoproject.up.startup import Up

NOT_RUNNING = 3  # as an init script's status
# Beyond the workers' drain: everything else that stops, and its patience.
STOP_MARGIN_SEC = 120.0


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        config = Config.read(os.environ, is_demo=not options.no_demo)
        if options.stop:
            return stop(config)
        if options.status:
            return status(config)
        if options.detach:
            return detach(config)
        return run(config, options.report_to)
    except UpError as fault:
        return _complain(str(fault))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bin/up",
        allow_abbrev=False,
        description="Start Chrono: web, dispatchers, workers, maintenance and Flower, and"
        " PostgreSQL and Valkey where DATABASE_URL and REDIS_URL name none."
        " Settings are environment variables; docs/reference/settings.md lists them.",
    )
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--detach", action="store_true", help="return once ready, and go on behind")
    way.add_argument("--stop", action="store_true", help="stop what runs in CHRONO_HOME")
    way.add_argument("--status", action="store_true", help="say what runs in CHRONO_HOME")
    parser.add_argument("--no-demo", action="store_true", help="register no demo jobs")
    parser.add_argument("--report-to", type=int, help=argparse.SUPPRESS)
    return parser


def run(config: Config, report_to: int | None) -> int:
    """Be the supervisor: in the foreground, or reporting to a `--detach` that waits."""
    terminal = standard_output() if report_to is None else None
    with closing(Console(Home(config.home).logs, terminal=terminal)) as console:
        up = Up(config, console)
        if report_to is None:
            up.run(console.show)
            return 0
        with os.fdopen(report_to, "w", encoding="utf-8") as report:
            try:
                up.run(_reporter(report))
            except UpError as fault:
                console.say(str(fault))
                if not report.closed:
                    json.dump({"fault": str(fault)}, report)
                return 1
    return 0


def _reporter(report: TextIO) -> Callable[[str], None]:
    def ready(text: str) -> None:
        json.dump({"ready": text}, report)
        report.close()

    return ready


def detach(config: Config) -> int:
    home = Home(config.home)
    home.prepare()
    home.refuse_second()
    read_end, write_end = os.pipe()
    again = [sys.executable, "-m", "chronoproject.up", f"--report-to={write_end}"]
    with (home.logs / "up.log").open("ab") as log:
        supervisor = subprocess.Popen(  # noqa: S603 - ourselves again
            [*again, *([] if config.is_demo else ["--no-demo"])],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            pass_fds=(write_end,),
        )
    os.close(write_end)
    sys.stdout.write(f"bin/up: starting in {home.path}; log: {home.logs / 'up.log'}\n")
    sys.stdout.flush()
    with os.fdopen(read_end, encoding="utf-8") as report:
        try:
            said = report.read()
        except KeyboardInterrupt:
            supervisor.send_signal(signal.SIGTERM)
            supervisor.wait()
            return _complain("stopped before it was ready")
    answer = json.loads(said) if said else {"fault": f"it ended; {home.logs / 'up.log'} has why"}
    if "fault" in answer:
        supervisor.wait()
        return _complain(answer["fault"])
    sys.stdout.write(answer["ready"])
    return 0


def stop(config: Config) -> int:
    home = Home(config.home)
    supervisor = home.supervisor()
    if supervisor is not None and (identity := identify(supervisor)) is not None:
        _ask_to_stop(supervisor)
        deadline = time.monotonic() + config.drain_sec + STOP_MARGIN_SEC
        while identity.lives():
            if time.monotonic() > deadline:
                return _complain(f"the supervisor (pid {supervisor}) still stops; see {home.logs}")
            time.sleep(0.1)
    recorded = state.read_processes(home)
    end_leftovers(home, recorded, lambda text: print(f"bin/up: {text}"))  # noqa: T201 - a command
    if supervisor is None and not recorded:
        sys.stdout.write(f"bin/up: nothing runs in {home.path}\n")
        return 0
    if recorded:
        state.forget(home)
    sys.stdout.write(f"bin/up: stopped what ran in {home.path}\n")
    return 0


def _ask_to_stop(supervisor: int) -> None:
    try:
        os.kill(supervisor, signal.SIGTERM)
    except ProcessLookupError:
        return  # it has ended meanwhile, which is what was wanted
    except PermissionError as fault:
        raise UpError(f"the supervisor (pid {supervisor}) belongs to another user") from fault


def status(config: Config) -> int:
    home = Home(config.home)
    supervisor = home.supervisor()
    if supervisor is None:
        sys.stdout.write(_without_supervisor(home))
        return NOT_RUNNING
    up = state.read_up_json(home)
    word = "ready" if up else "starting or stopping"
    lines = [f"Chrono in {home.path} is {word}; supervisor pid {supervisor}"]
    for name, one in state.read_processes(home).items():
        age = _age_sec(one.pid) if one.lives() else None
        told = "is down, to be started again" if age is None else f"up {age // 60} min {age % 60} s"
        lines.append(f"  {name:<14} pid {one.pid:<8} {told}")
    if up:
        lines.append(f"  API {up['api_url']}  Flower {up['flower_url']}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if up else NOT_RUNNING


def _without_supervisor(home: Home) -> str:
    """Say what a killed supervisor left: its processes end by themselves, in their own time."""
    left = living(home, state.read_processes(home))
    if not left:
        return f"Nothing runs in {home.path}\n"
    lines = [f"No supervisor runs in {home.path}, but what it left does; bin/up --stop ends it"]
    for name, one in left.items():
        told = "still lives" if one.lives() else "is gone, but not all of its group"
        lines.append(f"  {name:<14} pid {one.pid:<8} {told}")
    return "\n".join(lines) + "\n"


def _age_sec(pid: int) -> int | None:
    started = start_ticks(pid)
    if started is None:
        return None
    uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    return int(uptime - started / os.sysconf("SC_CLK_TCK"))


def _complain(text: str) -> int:
    sys.stderr.write(f"bin/up: {text}\n")
    return 1
