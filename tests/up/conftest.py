"""A small stand-in for Chrono, so that these tests are about the supervisor alone."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from chronoproject.embedded import free_port
from tests import servers
from tests.up.standin import FILES, Chrono

ROOT = Path(__file__).resolve().parents[2]
# Its input ends when the test run does, however it ends.
STOP_ALL = """
import os, pathlib, subprocess, sys
sys.stdin.read()
for record in pathlib.Path(sys.argv[1]).glob("a place*/home/processes.json"):
    env = os.environ | {"CHRONO_HOME": str(record.parent), "CHRONO_DRAIN_SEC": "2"}
    stop = [sys.executable, "-m", "chronoproject.up", "--stop"]
    subprocess.run(stop, env=env, stdout=subprocess.DEVNULL)
"""
REAL = ("up", "embedded.py", "embedded_binaries.py", "linux.py")


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real supervisor, amid processes that only pretend."""
    clone = tmp_path_factory.mktemp("clone")
    (clone / "chronoproject").mkdir()
    for name in REAL:
        source = ROOT / "chronoproject" / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, clone / "chronoproject" / name)
    for name, text in FILES.items():
        (clone / name).parent.mkdir(exist_ok=True)
        (clone / name).write_text(text, encoding="utf-8")
    return clone


@pytest.fixture(scope="session")
def make_chrono(
    clone: Path, tmp_path_factory: pytest.TempPathFactory, private_servers: servers.Addresses
) -> Iterator[Callable[[], Chrono]]:
    """Makes Chronos that use the test run's servers, each in a home of its own; stops them all."""
    url = urlsplit(private_servers.database_url)._replace(path="/postgres")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("CHRONO_")}

    def make() -> Chrono:
        env = {
            "CHRONO_HOME": str(tmp_path_factory.mktemp("a place") / "home"),
            "CHRONO_PORT": str(free_port()),
            "CHRONO_FLOWER_PORT": str(free_port()),
            "CHRONO_DRAIN_SEC": "2",
            "DATABASE_URL": urlunsplit(url),
            "REDIS_URL": private_servers.redis_url,
        }
        return Chrono(clone, plain | env)

    # They are detached on purpose, so what stops them has to outlive a test run that is killed.
    with subprocess.Popen(
        [sys.executable, "-c", STOP_ALL, str(tmp_path_factory.getbasetemp())],
        cwd=clone,
        stdin=subprocess.PIPE,
        start_new_session=True,
    ):
        yield make


@pytest.fixture
def chrono(make_chrono: Callable[[], Chrono]) -> Chrono:
    """Not started yet."""
    return make_chrono()


@pytest.fixture(scope="session")
def running(make_chrono: Callable[[], Chrono]) -> Chrono:
    """Started once, for the tests that leave it running; `running.started` is what it said."""
    chrono = make_chrono()
    chrono.started = chrono.up("--detach")
    assert chrono.started.returncode == 0, chrono.started.stderr
    return chrono
