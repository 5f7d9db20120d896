"""The dispatcher's two questions, claim_due and next_due, over many jobs: their time and plan.

Asked by a dispatcher alone and by one with half of the shards; with nothing due, with some due, and
with nothing due while the index still leads with the dead entries of a burst that no vacuum has
seen. Fails unless each plan enters `job_next` by the index of what is due, the claim `jobs` by its
key in a nested loop, and an idle question takes under five milliseconds.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

from bench import harness

QUESTIONS = ("claim_due", "next_due")
DUE, KEY, LOOP = ("job_next", "job_next_due"), ("jobs", "jobs_pkey"), "Nested Loop"
IDLE_MS = 5.0
REPEATS = 20
NOTHING, SOME, BURST_BEFORE = "nothing_due", "some_due", "nothing_due_after_unvacuumed_burst"


@contextmanager
def undone() -> Iterator[None]:
    """Roll back what the block does: claim_due locks its rows."""
    from django.db import transaction

    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def params(name: str, is_alone: bool) -> dict[str, Any]:
    """Return the parameters with which the dispatcher asks."""
    from django.conf import settings

    from chronoproject.clock import db_now
    from runs.batch import bucket_array, due_to
    from runs.shards import HELP_AFTER_SEC, bucket_range

    buckets = None if is_alone else list(bucket_range(0, 2))
    if name == "next_due":
        return {"bucket": bucket_array(buckets), "help_after_sec": HELP_AFTER_SEC}
    now = db_now()
    return {**due_to(buckets, now), "limit": settings.CHRONO_BATCH_JOBS, "job_id": None}


def timed(name: str, is_alone: bool) -> tuple[dict[str, float], int]:
    """Return the milliseconds of a question, as the dispatcher sees them, and its row count."""
    from runs.floor import SQL

    spent, rows = [], []
    for _ in range(REPEATS):
        with undone():
            values = params(name, is_alone)
            start = time.perf_counter()
            rows = SQL[name].rows(**values)
            spent.append((time.perf_counter() - start) * 1000)
    return harness.spread(spent), len(rows)


def plan_nodes(node: dict[str, Any]) -> Iterator[str]:
    """Yield each node's type with its table and index, outermost first."""
    where = [str(node[key]) for key in ("Relation Name", "Index Name") if key in node]
    yield " ".join([str(node["Node Type"]), *where])
    for child in node.get("Plans", []):
        yield from plan_nodes(child)


def explained(name: str, is_alone: bool) -> dict[str, Any]:
    """Return the nodes of the plan that was executed, and the pages it touched."""
    from django.db import connection

    from runs.floor import SQL

    with undone(), connection.cursor() as cursor:
        cursor.execute(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {SQL[name].text}", params(name, is_alone)
        )
        ((answer,),) = cursor.fetchall()
    found: list[dict[str, Any]] = json.loads(answer) if isinstance(answer, str) else answer
    top = found[0]["Plan"]
    return {
        "server_ms": round(found[0]["Execution Time"], 3),
        "planning_ms": round(found[0]["Planning Time"], 3),
        "pages": top["Shared Hit Blocks"] + top["Shared Read Blocks"],
        "nodes": " > ".join(plan_nodes(top)),
    }


def ask() -> dict[str, Any]:
    """Return the figures of both questions in the present state."""
    found = {}
    for name, is_alone in product(QUESTIONS, (True, False)):
        milliseconds, rows = timed(name, is_alone)
        plan = explained(name, is_alone)
        asked = name if is_alone else f"{name}_half_the_shards"
        found[asked] = {"ms": milliseconds, "rows": rows, "plan": plan}
    return found


def set_due(count: int) -> None:
    """Make that many jobs due at this second, and leave no trace of how."""
    harness.execute(
        "UPDATE job_next SET next_run_at = date_trunc('second', clock_timestamp()) WHERE job_id IN"
        " (SELECT job_id FROM job_next ORDER BY next_run_at DESC LIMIT %s)",
        count,
    )
    harness.execute("VACUUM (ANALYZE) job_next")


def advance_due() -> None:
    """Move what is due a day on, as a dispatcher does; nothing is vacuumed."""
    harness.execute(
        "UPDATE job_next SET next_run_at = next_run_at + interval '1 day'"
        " WHERE next_run_at <= clock_timestamp()"
    )


def measure(total: int, due: int) -> dict[str, Any]:
    """Bring the table to `total` jobs and return the figures of all three states."""
    ((present,),) = harness.execute("SELECT count(*) FROM jobs")
    harness.make_jobs(total - present, ["0 * * * *"], team=f"scan-{total}")
    harness.execute("ALTER TABLE job_next SET (autovacuum_enabled = false)")
    states = {NOTHING: ask()}
    set_due(due)
    states[SOME] = ask()
    advance_due()
    states[BURST_BEFORE] = ask()
    return states


def is_by_index(name: str, nodes: list[str]) -> bool:
    """Say whether each table is entered by the index meant for it, the claim's in a loop."""
    entries = [node for node in nodes if " job_next" in node or " jobs" in node]
    by = {(entry.split()[-2], entry.split()[-1]) for entry in entries}
    if not all(entry.startswith("Index") for entry in entries):
        return False
    return by == {DUE} if name.startswith("next_due") else by == {DUE, KEY} and LOOP in nodes


def faults(sizes: dict[str, dict[str, Any]]) -> list[str]:
    """Return what misses the target."""
    found = []
    for size, states in sizes.items():
        for state, questions in states.items():
            for name, figures in questions.items():
                where = f"{name} of {size} jobs, {state}"
                nodes = figures["plan"]["nodes"].split(" > ")
                if not is_by_index(name, nodes):
                    found.append(f"{where}: {nodes}")
                if state != SOME and figures["ms"]["median"] >= IDLE_MS:
                    found.append(f"{where}: {figures['ms']['median']} ms")
    return found


def main() -> None:
    """Measure; exit 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--due", type=int, default=1_000)
    options = parser.parse_args()
    with harness.servers(CHRONO_STATEMENT_TIMEOUT_SEC="600"):
        sizes = {str(total): measure(total, options.due) for total in sorted(options.jobs)}
    missed = faults(sizes)
    harness.show({"due": options.due, "jobs": sizes, "missed": missed})
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
