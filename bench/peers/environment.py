"""The peers' own virtual environment: what Chrono does not depend on stays out of Chrono's."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
VENV = HERE / ".venv"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = HERE / "requirements.txt"
STAMP = VENV / "installed.txt"


def ensure() -> None:
    """Make the environment unless it holds what the requirements pin."""
    wanted = REQUIREMENTS.read_text()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    venv.create(VENV, clear=True, with_pip=True)
    pip = [str(PYTHON), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(REQUIREMENTS)], check=True, stdout=sys.stderr)
    STAMP.write_text(wanted)


def run(module: str, *arguments: object, **environment: str) -> dict[str, Any]:
    """Run a module of this package in the peers' environment; return the JSON that it prints."""
    done = subprocess.run(
        [str(PYTHON), "-m", f"bench.peers.{module}", *map(str, arguments)],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC", **environment},
        stdout=subprocess.PIPE,
        check=True,
    )
    return dict(json.loads(done.stdout))
