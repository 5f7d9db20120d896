"""What runs: the command line, environment and grace of every process."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from chronoproject import linux
from chronoproject.up.child import Service
from chronoproject.up.config import ROOT, Config
from chronoproject.up.home import Home

WEB_WORKERS = 2
# A reader that follows a log holds a thread as long as the run lasts.
WEB_THREADS = 16
WEB_DRAIN_SEC = 10
# Beyond the drain, for the last outcomes to be written.
DRAIN_MARGIN_SEC = 30.0

Launcher = Callable[[], linux.Launch]


def environment(
    config: Config, home: Home, base: Mapping[str, str], *, database_url: str, redis_url: str
) -> dict[str, str]:
    """The environment of every process of ours, on top of the caller's own."""
    own_address = f"127.0.0.1:{config.port}"
    env = dict(base)
    env |= {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "CHRONO_HOME": str(config.home),
        "CHRONO_PORT": str(config.port),
        "CHRONO_FLOWER_PORT": str(config.flower_port),
        "CHRONO_WORKER_CONCURRENCY": str(config.worker_concurrency),
        # The demo's call of our own /healthz is a call to a private address.
        "CHRONO_HTTP_ALLOW": ",".join(filter(None, [config.http_allow, own_address])),
        "DJANGO_SETTINGS_MODULE": "chronoproject.settings",
        "PYTHONUNBUFFERED": "1",
        # Only the pinned tzdata package counts, on every machine (PROTOCOL 5).
        "PYTHONTZPATH": "",
    }
    if not config.has_own_secret_key:
        env.pop("CHRONO_SECRET_KEY", None)  # set but empty
        env["CHRONO_SECRET_KEY_FILE"] = str(home.secret_key)
    return env


def migrate(env: Mapping[str, str]) -> Service:
    return Service("migrate", _manage(env, "migrate", "--noinput"), is_once=True)


def check(config: Config, env: Mapping[str, str]) -> Service:
    """What a worker needs, looked at before one is started: without workers jobs stay queued."""
    return Service("check", _worker("worker-1", config, env, "--check").launch, is_once=True)


def bootstrap(env: Mapping[str, str], credentials: Path, *, is_demo: bool) -> Service:
    words = ["bootstrap", "--credentials", str(credentials), *([] if is_demo else ["--no-demo"])]
    return Service("bootstrap", _manage(env, *words), is_once=True)


def services(config: Config, env: Mapping[str, str]) -> list[Service]:
    """In the order of their start."""
    return [
        Service("web", _web(config, env)),
        *(_dispatcher(f"dispatcher-{number + 1}", env) for number in range(config.dispatchers)),
        *(_worker(f"worker-{number + 1}", config, env) for number in range(config.workers)),
        Service("maintenance", _manage(env, "maintenance")),
        Service("flower", _flower(config, env)),
    ]


def stop_stages(config: Config) -> list[list[str]]:
    """What asks for work ends before what does it, and the servers last."""
    front = [service.name for service in services(config, {})]
    workers = [name for name in front if name.startswith("worker-")]
    return [[name for name in front if name not in workers], workers, ["valkey"], ["postgres"]]


def _dispatcher(name: str, env: Mapping[str, str]) -> Service:
    return Service(name, _manage(env, "dispatcher", "--name", name))


def _worker(name: str, config: Config, env: Mapping[str, str], *words: str) -> Service:
    size = ("--concurrency", str(config.worker_concurrency), "--pools", config.pools)
    # On one machine the workers also do the console's large operations.
    launch = _manage(env, "worker", "--name", name, *size, "--operations", *words)
    return Service(name, launch, config.drain_sec + DRAIN_MARGIN_SEC)


def _web(config: Config, env: Mapping[str, str]) -> Launcher:
    return _python(
        env,
        *("-m", "gunicorn", "chronoproject.wsgi:application"),
        *("--bind", f"127.0.0.1:{config.port}"),
        *("--worker-class", "gthread"),
        *("--workers", str(WEB_WORKERS), "--threads", str(WEB_THREADS)),
        *("--graceful-timeout", str(WEB_DRAIN_SEC)),
        "--preload",  # imported once for both workers
        # Its place would be the user's home directory, which two installations would share.
        "--no-control-socket",
    )


def _flower(config: Config, env: Mapping[str, str]) -> Launcher:
    return _python(
        env,
        *("-m", "celery", "-A", "chronoproject", "flower"),
        *("--address=127.0.0.1", f"--port={config.flower_port}"),
    )


def _manage(env: Mapping[str, str], *words: str) -> Launcher:
    return _python(env, str(ROOT / "manage.py"), *words)


def _python(env: Mapping[str, str], *words: str) -> Launcher:
    launch = linux.Launch(argv=(sys.executable, *words), env=env, cwd=ROOT)
    return lambda: launch
