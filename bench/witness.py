"""Commands that write down what they do, so that executions are counted by themselves.

Each attempt holds a file lock of its run through all its processes: a second attempt that finds it
taken says so. Where a job has a limit, each also takes one of as many locks as may run at once.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import harness

SAY = (
    'say() {{ echo "$1 $CHRONO_RUN_ID $CHRONO_ATTEMPT $(date +%s.%N) ${{slot:-0}}" >> {0}/said; }}'
)
HOLD = "exec 9>>{0}/$CHRONO_RUN_ID; flock -n 9 || say overlap"
TAKE = (
    "slot=0; for n in {2}; do exec 8>>{0}/{1}.$n; if flock -n 8; then slot=$n; break; fi; done;"
    " [ $slot != 0 ] || say over"
)


@dataclass(frozen=True, slots=True)
class Line:
    """What an attempt said: start, alive, end; overlap or over where a promise is broken."""

    word: str
    run_id: str
    attempt: int
    at: float
    slot: int


class Witness:
    """A folder that commands may write to, whoever they run as."""

    def __init__(self, folder: Path) -> None:
        """Use an empty folder."""
        self.folder = folder
        folder.chmod(0o777)
        (folder / "said").touch()
        (folder / "said").chmod(0o666)

    def command(self, body: str, *, name: str = "", limit: int = 0) -> str:
        """Return the shell command that does `body` and tells of it."""
        places = " ".join(str(n + 1) for n in range(limit))
        parts = [SAY, HOLD, *([TAKE] if limit else []), "say start"]
        told = "; ".join(part.format(self.folder, name, places) for part in parts)
        return f"{told}; {body}; say end"

    def lines(self) -> list[Line]:
        """Return all that was said so far."""
        rows = [row.split() for row in (self.folder / "said").read_text().splitlines()]
        return [Line(row[0], row[1], int(row[2]), float(row[3]), int(row[4])) for row in rows]

    def count(self, word: str) -> int:
        """Return how often a word was said."""
        return sum(1 for line in self.lines() if line.word == word)


@contextmanager
def witness() -> Iterator[Witness]:
    """Make a witness for the length of a block."""
    with tempfile.TemporaryDirectory(prefix="chrono-witness-") as folder:
        yield Witness(Path(folder))


def account(seen: Witness, expected: int) -> dict[str, object]:
    """Compare what the commands wrote with what is recorded of their runs."""
    lines = seen.lines()
    starts = Counter(line.run_id for line in lines if line.word == "start")
    ends = Counter(line.run_id for line in lines if line.word == "end")
    rows = harness.execute("SELECT run_id::text, status FROM runs")
    ((retries_used, lost),) = harness.execute(
        "SELECT count(*) FILTER (WHERE r.attempt_limit - r.attempt <> j.max_retries),"
        " count(*) FILTER (WHERE r.lost_count > 0) FROM runs r JOIN jobs j USING (job_id)"
    )
    done = {run_id for run_id, status in rows if status == "succeeded"}
    return {
        "runs": expected,
        "recorded": len(rows),
        "by_status": dict(Counter(status for _, status in rows)),
        "executed_once": sum(1 for run_id in starts if starts[run_id] == ends[run_id] == 1),
        "started_twice": sum(1 for run_id in starts if starts[run_id] > 1),
        "not_executed": sum(1 for run_id, _ in rows if not ends[run_id]),
        "outcome_lost": len(ends.keys() - done),
        "overlaps": sum(1 for line in lines if line.word == "overlap"),
        "attempts": dict(harness.execute("SELECT outcome, count(*) FROM run_attempts GROUP BY 1")),
        "retries_used": retries_used,
        "lost": lost,
    }


def is_single(found: dict[str, object]) -> bool:
    """Say whether every run was recorded, executed once, and its outcome kept."""
    broken = ("started_twice", "not_executed", "outcome_lost", "overlaps", "retries_used", "lost")
    whole = found["runs"] == found["recorded"] == found["executed_once"]
    return whole and not any(found[name] for name in broken)
