"""The same entries due at once with Chrono and its peers: due until all messages are in Redis.

Chrono records a row for each tick in PostgreSQL meanwhile; no peer keeps a history. celery beat
compares its whole schedule before each send, so its cost grows with the square of the entries: it
gets fewer of them, which flatters it.
"""

import argparse
import os
import sys
from statistics import median
from typing import Any

from bench import burst, harness
from bench.peers import environment

TARGET = 8


def peer(name: str, count: int) -> dict[str, Any]:
    """Return one peer's figures of one round, in a Redis database of its own."""
    url = os.environ["REDIS_URL"].rsplit("/", 1)[0] + "/1"
    return environment.run("burst", name, count, url)


def in_turns(counts: dict[str, int], due: int, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Return each one's rounds, Chrono's among them."""
    found: dict[str, list[dict[str, Any]]] = {"chrono": [], **{name: [] for name in counts}}
    for _ in range(rounds):
        seconds, messages = burst.one_round(burst.chrono, due)
        found["chrono"].append({"seconds": seconds, "messages": messages})
        for name, count in counts.items():
            found[name].append(peer(name, count))
    return found


def summary(
    found: dict[str, list[dict[str, Any]]], due: int, counts: dict[str, int]
) -> dict[str, Any]:
    """Return seconds by name, and Chrono's ratio to the fastest peer of the same count."""
    seconds = {name: [one["seconds"] for one in rounds] for name, rounds in found.items()}
    fastest = min(
        (name for name, count in counts.items() if count == due),
        key=lambda name: median(seconds[name]),
    )
    return {
        "due": due,
        "rounds": len(seconds["chrono"]),
        "chrono": {**found["chrono"][-1], "seconds": harness.spread(seconds["chrono"])},
        "peers": {
            name: {
                **found[name][-1],
                "entries": count,
                "seconds": harness.spread(seconds[name]),
                "per_sec": round(count / median(seconds[name])),
                "times_chrono_per_entry": round(
                    median(seconds[name]) / count * due / median(seconds["chrono"]), 1
                ),
            }
            for name, count in counts.items()
        },
        "fastest_peer": fastest,
        "ratio": round(median(seconds[fastest]) / median(seconds["chrono"]), 1),
        "target": TARGET,
    }


def main() -> None:
    """Measure; exit 1 when Chrono misses the target."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--due", type=int, default=10_000)
    parser.add_argument("--beat-entries", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    environment.ensure()
    counts = {"beat": options.beat_entries, "redbeat": options.due, "rq": options.due}
    with harness.servers(CHRONO_STATEMENT_TIMEOUT_SEC="300"):
        harness.make_jobs(options.due, ["0 * * * *"])
        found = in_turns(counts, options.due, options.rounds)
    figures = summary(found, options.due, counts)
    harness.show(figures)
    sys.exit(0 if figures["ratio"] >= TARGET else 1)


if __name__ == "__main__":
    main()
