"""Stand-ins for the processes of Chrono, and a handle on a supervisor that runs them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chronoproject import linux

# What runs until SIGTERM. FAKE_STUBBORN names one that does not mind SIGTERM, FAKE_FAILING one that
# ends at once; each has a child of its own, which a process group has to take along.
SERVICE = """
import os, signal, subprocess, sys, time
name = sys.argv[sys.argv.index("--name") + 1] if "--name" in sys.argv else sys.argv[1]
if os.environ.get("FAKE_FAILING") == name:
    sys.exit(f"{name} fails")
if os.environ.get("FAKE_STUBBORN") == name:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
subprocess.Popen(["sleep", "600"])
print("at work", sorted(map(int, os.listdir("/proc/self/fd")))[:-1], flush=True)
while True:
    time.sleep(60)
"""

MANAGE = (
    """
import os, sys
if sys.argv[1] == "migrate":
    sys.exit("no such table" if os.environ.get("FAKE_FAILING") == "migrate" else 0)
if "--check" in sys.argv and os.environ.get("FAKE_REFUSED"):
    print("WARNING something else")
    print("CommandError:", os.environ["FAKE_REFUSED"], file=sys.stderr)
    sys.exit(2)
if "--check" in sys.argv:
    sys.exit("no shim" if os.environ.get("FAKE_FAILING") == "check" else 0)
if sys.argv[1] == "bootstrap":
    print("made the team")
    print(open(sys.argv[sys.argv.index("--credentials") + 1]).read())
    print("demo" if "--no-demo" not in sys.argv else "no demo")
    sys.exit(0)
"""
    + SERVICE
)

# gunicorn and flower: 200 for everything.
WEB = """
import http.server, signal, sys
place = next(word for word in sys.argv if word.startswith(("--port=", "127.0.0.1:")))
port = int(place.replace("=", ":").split(":")[1])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_): ...
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""

FILES = {
    "chronoproject/__init__.py": "",
    "manage.py": MANAGE,
    "gunicorn/__init__.py": "",
    "gunicorn/__main__.py": WEB,
    "celery/__init__.py": "",
    "celery/__main__.py": WEB,
}


class Chrono:
    """One home, and `python -m chronoproject.up` in it."""

    def __init__(self, clone: Path, env: dict[str, str]) -> None:
        self.clone = clone
        self.env = env
        self.home = Path(env["CHRONO_HOME"])
        self.started: subprocess.CompletedProcess[str] | None = None

    def up(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "chronoproject.up", *words],
            cwd=self.clone,
            env=self.env | env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def in_foreground(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "chronoproject.up"],
            cwd=self.clone,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def up_json(self) -> dict[str, Any]:
        return dict(json.loads((self.home / "up.json").read_text(encoding="utf-8")))

    @property
    def pids(self) -> dict[str, int]:
        return {one["name"]: one["pid"] for one in self.up_json["processes"]}

    @property
    def supervisor(self) -> int:
        return int((self.home / "up.lock").read_text(encoding="ascii"))

    def log(self, name: str) -> str:
        return (self.home / "logs" / f"{name}.log").read_text(encoding="utf-8")

    def processes(self) -> list[int]:
        """Whatever lives and was started for this home, with all descendants."""
        return [
            pid
            for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
            if linux.environment(pid).get("CHRONO_HOME") == str(self.home)
            and linux.start_ticks(pid) is not None
        ]


def eventually(is_true: Callable[[], bool], limit_sec: float = 20.0) -> bool:
    """Wait for a condition, not for a while."""
    deadline = time.monotonic() + limit_sec
    while not is_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
