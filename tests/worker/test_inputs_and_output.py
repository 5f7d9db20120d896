"""What upstreams left reaches a command as a file and a task as a value; output of a command."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from runs.executors import output
from tests.worker.harness import command, harness, task

INPUTS = {"naïve upstream": {"jobId": "a", "status": "succeeded", "output": {"rows": [1, 2]}}}
LIMIT = 64 * 1024


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHRONO_TASK_MODULES", "runs.builtin_tasks,tests.worker.sample_tasks")


def outcomes(*plans: dict[str, Any]) -> list[dict[str, Any]]:
    with harness(list(plans)) as h:
        ended = [h.event("outcome") for _ in plans]
        assert list(h.work_root.iterdir()) == []  # the files are gone with the directory
    return ended


def test_a_command_reads_its_inputs() -> None:
    with_inputs, without, other = outcomes(
        command('cat "$CHRONO_INPUTS"; stat -c %a:%u "$CHRONO_INPUTS"; ls', inputs=INPUTS),
        command("echo ${CHRONO_INPUTS-none}; ls -A"),
        command('cat "$CHRONO_INPUTS"', inputs={}, env={"CHRONO_INPUTS": "/dev/null"}),
    )
    text, _, last = with_inputs["log"].rpartition("600:")
    assert json.loads(text) == INPUTS
    assert "naïve" in text
    assert last == f"{65534 if os.geteuid() == 0 else os.geteuid()}\n"  # and ls shows nothing
    assert without["log"] == "none\n"
    assert other["log"] == "{}\n"


def write(text: str, then: str = "") -> dict[str, Any]:
    return command(f"cat > \"$CHRONO_OUTPUT\" << 'END'\n{text}\nEND\n{then}")


def test_what_a_command_writes_is_its_output() -> None:
    ended = outcomes(
        write('{"rows": 3, "of": "größe"}'),
        write("[1,\n2]"),
        write("null"),
        command(': > "$CHRONO_OUTPUT"'),
        command("true"),
        command(f"printf '\"%0{LIMIT - 2}d\"' 0 > $CHRONO_OUTPUT"),
        write('{"found": "nothing"}', "exit 4"),
    )
    assert [one["result"] for one in ended] == ["succeeded"] * 6 + ["failed"]
    assert [one["output"] for one in ended[:5]] == [
        {"rows": 3, "of": "größe"},
        [1, 2],
        None,
        None,
        None,
    ]
    assert len(ended[5]["output"]) == LIMIT - 2
    failed = ended[6]
    assert (failed["output"], failed["reason"]) == ({"found": "nothing"}, "exit_code")


def test_output_that_cannot_be_kept_fails_the_command() -> None:
    ended = outcomes(
        write("rows: 3"),
        write("[NaN, 1]"),
        write("1e999"),
        write('"a\\u0000b"'),
        write('["\\ud800x"]'),
        write("[" * 20_000),
        command(r"printf '\377' > $CHRONO_OUTPUT"),
        command(f"printf '\"%0{LIMIT - 1}d\"' 0 > $CHRONO_OUTPUT"),
        command("ln -s /etc/hostname $CHRONO_OUTPUT"),
        command("mkfifo $CHRONO_OUTPUT"),
        command("mkdir $CHRONO_OUTPUT"),
    )
    assert {(one["result"], one["reason"], one["exit_code"]) for one in ended} == {
        ("failed", "output", 0)
    }
    words = [one["error"].removeprefix("$CHRONO_OUTPUT ").split(":")[0] for one in ended]
    assert words == [
        *["is not JSON"] * 3,
        "holds a NUL character",
        "holds half of a surrogate pair",
        *["is not JSON"] * 2,
        "is more than 65536 bytes",
        "cannot be read",
        *["is not a plain file of the command's own"] * 2,
    ]
    assert all(one["log"] == f"[chrono] {one['error']}\n" for one in ended)


def test_another_users_file_is_not_read(tmp_path: Path) -> None:
    """A hard link may lead to a file that the command itself may not read."""
    path = tmp_path / "output"
    path.write_text("1")
    assert output.read_file(path, os.geteuid()) == 1
    with pytest.raises(output.OutputError, match="own"):
        output.read_file(path, os.geteuid() + 1)


def test_bad_output_of_a_failed_command_is_only_told() -> None:
    failed, ended = outcomes(
        write("no JSON", "exit 5"), command("echo 1 > $CHRONO_OUTPUT; sleep 60", timeout_sec=0.5)
    )
    assert (failed["reason"], failed["exit_code"], failed["output"]) == ("exit_code", 5, None)
    assert failed["log"].startswith("[chrono] $CHRONO_OUTPUT is not JSON")
    assert (ended["reason"], ended["output"]) == ("timeout", None)


def test_a_task_is_given_its_inputs() -> None:
    given, own, none = outcomes(
        task("sample.inputs", "a", inputs=INPUTS),
        task("sample.inputs", "a", {"mine": 1}, inputs=INPUTS),
        task("sample.inputs", "a"),
    )
    assert given["output"] == {"own": "a", "keyword": INPUTS, "run": INPUTS}
    assert own["output"] == {"own": "a", "keyword": {"mine": 1}, "run": INPUTS}
    assert none["output"] == {"own": "a", "keyword": {}, "run": {}}
