"""The worker's main process around Celery: what stands before the pool forks, and what ends it."""

import contextlib
import logging
import os
import pwd
import shutil
import signal
import socket
import tempfile
import threading
import tomllib
import uuid
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from celery import Celery, signals
from celery.exceptions import SecurityWarning
from celery.worker import state
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from runs import pool_child, slots, task_registry
from runs.consumer_probe import DEAF_AFTER_SEC, ConsumerProbe
from runs.executors import namespace, proctree
from runs.executors.http_guard import AllowList
from runs.executors.shim_client import User
from runs.heartbeat import OVERRUN_SEC, Heartbeat, WorkerIdentity
from runs.pool_child import SECOND_NS, WorkerShare
from runs.publisher import TASK_NAME, queue_name
from runs.reclaim import Reclaimer
from runs.storage import backend, spooled, upload_spool

logger = logging.getLogger(__name__)

PRIORITIES = ("high", "normal", "low")  # the order in which queues are served
RUNS_PER_CHILD = 32  # how many runs of one message a pool child may hold
SPOOL_EVERY_SEC = WATCH_EVERY_SEC = 5.0
EVENTS_EVERY_SEC, EVENTS_AT_ONCE = 0.5, 300
STOP_WITHIN_SEC = 10.0
EXIT_RESTART = 75
MB = 1024 * 1024
WORK_PREFIX = "chrono-work-"
DEFAULT_USER = "nobody"


def queues_of(pools: Sequence[str]) -> list[str]:
    """Return the queues of these pools, in the order in which they are served."""
    return [queue_name(pool, priority) for priority in PRIORITIES for pool in pools]


def commands_user() -> User | None:
    """Return the user that commands run under; None to keep the worker's own.

    Raises ImproperlyConfigured when CHRONO_RUN_AS names nobody, or cannot be taken.
    """
    name = settings.CHRONO_RUN_AS
    if os.geteuid() != 0 or name in {"", "root"}:
        return None
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        if name == DEFAULT_USER:
            logger.warning("no user %r on this host: commands run as root", name)
            return None
        raise ImproperlyConfigured(f"CHRONO_RUN_AS: no user {name!r}") from None
    user = User(entry.pw_uid, entry.pw_gid)
    if not can_become(user):
        raise ImproperlyConfigured(f"CHRONO_RUN_AS: this process may not become {name!r}")
    return user


def can_become(user: User) -> bool:
    """Try it in a process of its own; a container may lack the right, or the id."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([user.gid])
            os.setresgid(user.gid, user.gid, user.gid)
            os.setresuid(user.uid, user.uid, user.uid)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def commands_are_isolated() -> bool:
    """Return CHRONO_PID_NAMESPACE. Raises ImproperlyConfigured when this process may not do it."""
    if settings.CHRONO_PID_NAMESPACE and not namespace.is_possible():
        raise ImproperlyConfigured("CHRONO_PID_NAMESPACE: this process lacks CAP_SYS_ADMIN")
    return bool(settings.CHRONO_PID_NAMESPACE)


def check_settings_of_runs() -> None:
    """Tell now, not by the first run, what is bad. Raises ImproperlyConfigured."""
    backend()
    try:
        AllowList(settings.CHRONO_HTTP_ALLOW)
    except ValueError as error:
        raise ImproperlyConfigured(f"CHRONO_HTTP_ALLOW: {error}") from error


def make_work_root() -> Path:
    """Make the folder of the commands' working directories; remove those of dead workers."""
    top = Path(tempfile.gettempdir())
    for old in top.glob(f"{WORK_PREFIX}*"):
        pid, _, start = old.name.removeprefix(WORK_PREFIX).partition("-")
        start = start.partition("-")[0]
        if not pid.isdigit() or not start.isdigit() or proctree.is_alive(int(pid), int(start)):
            continue
        with contextlib.suppress(FileNotFoundError):  # another worker that starts was first
            if old.stat().st_uid == os.geteuid():
                shutil.rmtree(old, ignore_errors=True)
    own = proctree.look(os.getpid())
    assert own is not None  # noqa: S101 - a process sees itself
    root = Path(tempfile.mkdtemp(prefix=f"{WORK_PREFIX}{own.pid}-{own.start}-"))
    root.chmod(0o711)  # a command may enter its own directory and list no other
    return root


def version() -> str:
    """Return Chrono's version."""
    text = (settings.BASE_DIR / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["version"])


def own_identity(
    name: str, hostname: str, concurrency: int, pools: Sequence[str]
) -> WorkerIdentity:
    """Return who this process is; no other one, nor this one's successor, has its worker_id."""
    return WorkerIdentity(
        worker_id=f"{name}@{hostname}-{uuid.uuid4().hex[:8]}",
        name=name,
        hostname=hostname,
        pid=os.getpid(),
        pools=tuple(pools),
        concurrency=concurrency,
        version=version(),
    )


class WorkerProcess:
    """One worker: Celery's prefork worker in this process, with slots, shims and heartbeat."""

    def __init__(
        self, app: Celery, *, name: str, concurrency: int, pools: Sequence[str], operations: bool
    ) -> None:
        """Prepare everything that pool children inherit. Raises ImproperlyConfigured."""
        self.app = app
        self.operations = operations
        self.hostname = socket.gethostname()
        self.identity = own_identity(name, self.hostname, concurrency, pools)
        user, is_isolated = commands_user(), commands_are_isolated()
        check_settings_of_runs()
        task_registry.load_task_modules()
        proctree.set_undumpable()
        proctree.set_subreaper(on=True)
        fence_ns = int(settings.CHRONO_LEASE_SEC * SECOND_NS * 2 / 3)
        # A dead child's slot is reclaimed after its successor has started, hence twice as many.
        table = slots.SlotTable.create(
            slots=2 * concurrency + 2, entries=RUNS_PER_CHILD, fence_ns=fence_ns
        )
        worker_id, root = self.identity.worker_id, make_work_root()
        self.share = WorkerShare(worker_id, table, user, root, is_isolated)
        self.heartbeat = Heartbeat(
            self.identity,
            table,
            Reclaimer(table, self.share.work_root, self.pool_pids),
            lease_sec=settings.CHRONO_LEASE_SEC,
            beat_sec=settings.CHRONO_HEARTBEAT_SEC,
            drain_sec=settings.CHRONO_DRAIN_SEC,
        )
        self.probe = ConsumerProbe(self._queues(), self._has_free_child)
        self._worker: Any = None
        self._exit_code: int | None = None
        self._event_timer: Any = None
        self._stopping = threading.Event()

    def pool_pids(self) -> Collection[int]:
        """Return the pids of Celery's pool children."""
        pool = getattr(getattr(self._worker, "pool", None), "_pool", None)
        return [process.pid for process in list(getattr(pool, "_pool", ()))]

    def run(self) -> int:
        """Run Celery's worker until it is told to stop; return its exit code."""
        pool_child.prepare(self.share)
        quieten()
        self._connect_signals()
        if not self.operations:
            self._keep_only_the_run_task()
        self._worker = self.app.Worker(
            hostname=f"{self.identity.name}@{self.hostname}",
            pool="prefork",
            concurrency=self.identity.concurrency,
            queues=self._queues(),
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=not settings.CHRONO_WORKER_EVENTS,
            task_events=settings.CHRONO_WORKER_EVENTS,
            loglevel="INFO",
            quiet=True,
        )
        try:
            self._worker.start()
        finally:
            self._stopping.set()
            self.heartbeat.stop(STOP_WITHIN_SEC)
            self.close()
        return int(self._exit_code or self._worker.exitcode or 0)

    def close(self) -> None:
        """Remove what was made for the pool children."""
        shutil.rmtree(self.share.work_root, ignore_errors=True)

    def _queues(self) -> list[str]:
        names = queues_of(self.identity.pools)
        return [*names, settings.CELERY_TASK_DEFAULT_QUEUE] if self.operations else names

    def _keep_only_the_run_task(self) -> None:
        """Refuse any other task on job queues (PROTOCOL 32)."""
        self.app.finalize()
        for name in [name for name in self.app.tasks if name != TASK_NAME]:
            if not name.startswith("celery."):
                self.app.tasks.unregister(name)

    def _connect_signals(self) -> None:
        """Let Celery's signals ring the heartbeat; no I/O and no outcome in its event loop."""
        signals.worker_process_init.connect(on_child_init, weak=False)
        signals.worker_ready.connect(self._on_ready, weak=False)
        signals.worker_shutting_down.connect(self._on_shutting_down, weak=False)
        signals.task_failure.connect(self._on_failure, weak=False)
        self.probe.connect()

    def _on_ready(self, sender: Any, **kwargs: object) -> None:  # noqa: ANN401 - Celery's consumer
        """Start the threads once the pool has forked; sent again after each reconnect."""
        self.heartbeat.start()
        self._gather_events(sender)
        if not any(thread.name == "log-spool" for thread in threading.enumerate()):
            threading.Thread(target=self._carry_spool, name="log-spool", daemon=True).start()
            threading.Thread(target=self._watch_itself, name="watch", daemon=True).start()

    def _gather_events(self, consumer: Any) -> None:  # noqa: ANN401 - as above
        """Send Flower's events in batches: one by one, they triple this process's cost of a run."""
        dispatcher = consumer.event_dispatcher
        if dispatcher is None or not settings.CHRONO_WORKER_EVENTS:
            return
        dispatcher.on_send_buffered = None
        dispatcher.buffer_limit = EVENTS_AT_ONCE
        if self._event_timer is not None:
            self._event_timer.cancel()
        self._event_timer = consumer.hub.call_repeatedly(EVENTS_EVERY_SEC, dispatcher.flush)

    def _on_shutting_down(self, **kwargs: object) -> None:
        self.heartbeat.drain()

    def _on_failure(self, **kwargs: object) -> None:
        self.heartbeat.ring()

    def _has_free_child(self) -> bool:
        """Say whether a message could be executed at once; a child may wait for the database."""
        if self.heartbeat.is_database_away or self.share.table.draining:
            return False
        busy = sum(1 for slot in self.share.table.slots if any(slot.held()))
        if self.operations:  # these hold no run
            busy = max(busy, len(state.active_requests))
        return busy < self.identity.concurrency

    def _watch_itself(self) -> None:
        """Restart this process when it takes no messages any more, or too much memory."""
        while not self._stopping.wait(WATCH_EVERY_SEC):
            if self.probe.look():
                self._restart(f"no message taken for {DEAF_AFTER_SEC:g} s though some lie there")
                return
            limit_mb = settings.CHRONO_WORKER_MAX_MB
            if limit_mb and (held_mb := proctree.resident_bytes() // MB) > limit_mb:
                self._restart(f"the main process holds {held_mb} MB of memory")
                return

    def _restart(self, why: str) -> None:
        """Drain and end this process; its supervisor starts it again.

        Celery's own part may be what is stuck; then the process ends without it.
        """
        logger.error("%s: this worker drains and restarts", why)
        self._exit_code = EXIT_RESTART
        os.kill(os.getpid(), signal.SIGTERM)
        within_sec = settings.CHRONO_DRAIN_SEC + OVERRUN_SEC + 2 * STOP_WITHIN_SEC
        if not self._stopping.wait(within_sec):
            os._exit(EXIT_RESTART)

    def _carry_spool(self) -> None:
        """Upload what was spooled while the store was away."""
        while not self._stopping.wait(SPOOL_EVERY_SEC):
            if spooled(settings.CHRONO_SPOOL_DIR):
                count = upload_spool(backend(), settings.CHRONO_SPOOL_DIR)
                logger.info("log spool: %d objects carried into the store", count)


def quieten() -> None:
    """Drop Celery's two lines a run, which cost as much as a tenth of it, and its word on root."""
    for name in ("celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", category=SecurityWarning)  # commands run as CHRONO_RUN_AS


def on_child_init(**kwargs: object) -> None:
    """Set a new pool child up; no network here, or a slow one would be killed at birth (C15)."""
    pool_child.start()
