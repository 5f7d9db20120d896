"""From nothing to ready, and down again: the order in which things start and stop."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping

from chronoproject.embedded import port_is_free
from chronoproject.linux import Identity
from chronoproject.up import plan, state
from chronoproject.up.banner import banner
from chronoproject.up.child import Service
from chronoproject.up.config import Config
from chronoproject.up.console import Console
from chronoproject.up.faults import StopRequestedError, UpError
from chronoproject.up.home import Home
from chronoproject.up.leftovers import end_leftovers
from chronoproject.up.servers import MAX_EXITS, check_given, start_servers
from chronoproject.up.supervisor import Supervisor

# Long, for a slow machine: what cannot start at all is noticed by its exits.
READY_SEC = 300.0
# A process that is going to fail at once has failed by then.
SETTLE_SEC = 1.0
# How manage.py tells in a line why a command cannot do its work (commandline.py).
CANNOT, COMMAND_ERROR = 2, "CommandError: "
CREDENTIALS = ("team", "api_token", "admin_user", "admin_password")


class Up:
    """One start of Chrono."""

    def __init__(self, config: Config, console: Console) -> None:
        self.config = config
        self.console = console
        self.home = Home(config.home)
        self.supervisor = Supervisor(console, self._record)
        self.urls: dict[str, str] = {}
        self.credentials: dict[str, str] = {}
        self.is_ready = False

    def run(self, when_ready: Callable[[str], None]) -> None:
        """Start all, then keep it going until a signal; whatever happens, leave nothing behind."""
        self.home.prepare()
        with self.home.held(), self.supervisor.listening():
            try:
                self._bring_up()
                when_ready(self._banner)
                while True:
                    self.supervisor.pump()
            except StopRequestedError:
                self.console.say("stopping (a second Ctrl-C does not wait for running jobs)")
            finally:
                has_started = bool(self.supervisor.children)
                self.supervisor.stop(plan.stop_stages(self.config))
                state.forget(self.home)
                if has_started:
                    self.console.say("stopped")

    def _bring_up(self) -> None:
        end_leftovers(self.home, state.read_processes(self.home), self.console.say)
        state.forget(self.home)
        self._check_ports()
        check_given(self.config)
        self.home.make_secrets()
        self.console.say(f"starting in {self.home.path}")
        self.urls = start_servers(self.config, self.supervisor)
        env = plan.environment(self.config, self.home, os.environ, **self.urls)
        self.console.say("migrating the database")
        self._run_once(plan.migrate(env))
        if self.config.workers:
            self._run_once(plan.check(self.config, env))
        self._bootstrap(env)
        for service in plan.services(self.config, env):
            self.supervisor.add(service)
        self._await_ready()
        self.is_ready = True
        self._record()
        self._banner = banner(
            self.config,
            self.credentials,
            self.home.up_json,
            is_first=self.home.show_secrets_once(),
        )

    def _check_ports(self) -> None:
        for name, port in (
            ("CHRONO_PORT", self.config.port),
            ("CHRONO_FLOWER_PORT", self.config.flower_port),
        ):
            if not port_is_free(port):
                raise UpError(f"port {port} of 127.0.0.1 is taken; choose another by {name}")

    def _run_once(self, service: Service) -> None:
        said: list[str] = []

        def tell(line: str) -> None:
            said.append(line)
            self.console.line(service.name, line)

        code = self.supervisor.run(service, tell)
        if code != 0:
            raise UpError(self._failed(service.name, code, said))

    def _bootstrap(self, env: Mapping[str, str]) -> None:
        service = plan.bootstrap(env, self.home.credentials, is_demo=self.config.is_demo)
        said: list[str] = []
        code = self.supervisor.run(service, said.append)
        answer = _last_object(said)
        for line in said:
            if not line.startswith("{"):  # the answer holds a token and a password
                self.console.line("bootstrap", line)
        if code != 0 or answer is None or not all(answer.get(name) for name in CREDENTIALS):
            raise UpError(self._failed("bootstrap", code, [line for line in said if line]))
        self.credentials = {name: str(answer[name]) for name in CREDENTIALS}

    def _failed(self, command: str, code: int, said: list[str]) -> str:
        reason = said[-1].strip().removeprefix(COMMAND_ERROR) if said else "no word"
        if code == CANNOT and said:
            return reason  # a setting is refused, or a server does not answer: the line says all
        return f"{command} ended with {code}: {reason} ({self.console.path(command)})"

    def _await_ready(self) -> None:
        children = self.supervisor.children
        urls = (f"{self.config.base_url}/readyz", f"{self.config.flower_url}/healthcheck")

        def is_settled() -> bool:
            for child in children.values():
                if child.exits >= MAX_EXITS:
                    raise UpError(
                        f"{child.name} does not stay up; its own words are in"
                        f" {self.console.path(child.name)}"
                    )
            return all(child.lived_sec > SETTLE_SEC for child in children.values()) and all(
                _answers(url) for url in urls
            )

        if not self.supervisor.wait(is_settled, READY_SEC):
            raise UpError(
                f"{' or '.join(urls)} does not answer after {READY_SEC:g} s;"
                f" {self.home.logs} has what every process said"
            )

    def _record(self) -> None:
        """Write down who lives, at every change."""
        processes: dict[str, Identity] = {
            child.name: child.identity
            for child in self.supervisor.children.values()
            if child.identity is not None
        }
        try:
            state.write_processes(self.home, processes)
            if self.is_ready:
                state.write_up_json(self.home, self.config, self.credentials, self.urls, processes)
        except OSError as fault:
            # A full disk is said, and must not end what runs.
            self.console.say(f"cannot write {fault.filename}: {fault.strerror}")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - our own http URL
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _last_object(lines: list[str]) -> dict[str, object] | None:
    for line in reversed(lines):
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            return found if isinstance(found, dict) else None
    return None
