"""A command sees its own environment and nothing of the worker's."""

import os
from pathlib import Path

import pytest

from tests.worker.harness import command, harness

SECRET = "a-secret-of-the-worker"
LISTING = """
env | sort
echo "cwd=$(pwd) files=$(ls -A | wc -l)"
for file in /proc/[0-9]*/environ; do tr '\\0' '\\n' < "$file"; done 2> /dev/null | grep -c {secret}
echo "fds=$(ls /proc/self/fd | wc -l) stdin=$(readlink /proc/self/fd/0)"
echo "uid=$(id -u)"
trap
"""


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_SECRET", SECRET)
    monkeypatch.setenv("DATABASE_URL", f"postgresql://chrono:{SECRET}@127.0.0.1/chrono")


def test_environment_directory_and_user() -> None:
    run_id = "01a22834-4178-84de-8b5f-3873585a0bfe"
    # The harness's main process is dumpable and, without root, of the same user: not looked at.
    with harness(
        [
            command(LISTING.format(secret=SECRET), run_id=run_id, attempt=3, env={"OWN": "a b=c"}),
            command("echo x > kept; mkdir -p a/b; chmod 000 a; chmod 500 ."),
            command(["nosuch-program"]),
            command(["/etc/hostname"]),
            command([]),
            command("true", env={"BAD=NAME": "x"}),
            command(["sh", "-c", "echo $HOME $PATH"], env={"HOME": "/own", "PATH": "/bin"}),
        ]
    ) as h:
        clean, messy, missing, not_a_program, nothing, bad_env, own_env = (
            h.event("outcome") for _ in range(7)
        )
        assert list(h.work_root.iterdir()) == []  # each directory is gone, whatever was in it
        work_root = h.work_root
    assert_clean(clean["log"].splitlines(), run_id, work_root)
    assert messy["result"] == "succeeded"
    assert (missing["exit_code"], not_a_program["exit_code"]) == (127, 126)
    assert missing["log"] == "[chrono] cannot start nosuch-program: No such file or directory\n"
    assert (nothing["reason"], bad_env["reason"]) == ("definition", "definition")
    assert own_env["log"] == "/own /bin\n"


def assert_clean(lines: list[str], run_id: str, work_root: Path) -> None:
    names = {line.partition("=")[0]: line.partition("=")[2] for line in lines if "=" in line}
    home = names["HOME"]
    assert Path(home).parent == work_root
    assert names["CHRONO_RUN_ID"] == run_id
    assert names["CHRONO_ATTEMPT"] == "3"
    assert names["CHRONO_SCHEDULED_FOR"] == "2031-02-03T04:05:06.000000Z"
    assert names["OWN"] == "a b=c"
    assert f"cwd={home} files=0" in lines
    variables = lines[: next(n for n, line in enumerate(lines) if line.startswith("cwd="))]
    assert {line.partition("=")[0] for line in variables} <= {
        "CHRONO_ATTEMPT",
        "CHRONO_JOB_ID",
        "CHRONO_LOGICAL_DATE",
        "CHRONO_OUTPUT",
        "CHRONO_RUN_ID",
        "CHRONO_SCHEDULED_FOR",
        "HOME",
        "LANG",
        "OWN",
        "PATH",
        "PWD",  # the shell's own doing, as these two
        "SHLVL",
        "_",
    }
    if os.geteuid() == 0:
        assert "0" in lines  # no environment with the secret could be read
        assert names["uid"] == "65534"
    # its output twice, nothing to read, and the folder that ls looks at: no descriptor of the shim
    assert any(line.startswith("fds=4 ") for line in lines)
    assert "stdin=/dev/null" in lines[-1] or any("stdin=/dev/null" in line for line in lines)
