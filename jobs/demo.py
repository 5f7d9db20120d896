"""The jobs that an empty installation begins with, so that there is something to look at."""

from datetime import datetime, timedelta
from typing import Any

from jobs.fields import instant_text

FIRST_EXTRACT, FIRST_FAILURE = timedelta(seconds=10), timedelta(seconds=15)
NOTE = "A demo job of `bin/up`; change or delete it as you like."


TRANSFORM = """\
rows=$(grep -o '"rows": [0-9]*' "$CHRONO_INPUTS" | grep -o '[0-9]*$')
echo "{\\"rows\\": $rows, \\"perSecond\\": $((rows / 60))}" > "$CHRONO_OUTPUT"
"""


def demo_jobs(port: int, now: datetime) -> list[dict[str, Any]]:
    """Return the definitions, as a client would write them; each first ticks within a minute.

    But for `dependsOn`: a job has no id yet, so this names jobs further up in the list.
    """
    return [*_single_jobs(port, now), *_dag(now)]


def _single_jobs(port: int, now: datetime) -> list[dict[str, Any]]:
    every_minute = {"schedule": "* * * * *", "tags": ["demo"]}
    return [
        {
            "name": "demo-hello",
            "description": f"A command that succeeds every minute. {NOTE}",
            "command": 'echo "hello from run $CHRONO_RUN_ID, tick $CHRONO_SCHEDULED_FOR"',
            **every_minute,
        },
        {
            "name": "demo-always-fails",
            "description": f"Fails, retries with back-off, and ends dead. {NOTE}",
            "command": 'echo "attempt $CHRONO_ATTEMPT fails"; exit 3',
            "retries": 2,
            "backoff": {"baseSec": 3, "factor": 2, "maxSec": 60, "jitter": 0.1},
            "schedule": {"everySec": 300, "anchor": instant_text(now + FIRST_FAILURE)},
            "tags": ["demo"],
        },
        {
            "name": "demo-http-healthz",
            "description": f"An HTTP call to Chrono's own /healthz. {NOTE}",
            "payload": {
                "type": "http",
                "method": "GET",
                "url": f"http://127.0.0.1:{port}/healthz",
                "expectStatus": 200,
            },
            **every_minute,
        },
        {
            "name": "demo-python-task",
            "description": f"A Python task that tells how far it is. {NOTE}",
            "payload": {"type": "task", "task": "chrono.sleep", "kwargs": {"seconds": 5}},
            **every_minute,
        },
    ]


def _dag(now: datetime) -> list[dict[str, Any]]:
    """Return a chain of jobs: each is handed what the one before it left."""
    return [
        {
            "name": "demo-extract",
            "description": f"Counts some rows, and leaves how many as its output. {NOTE}",
            "command": 'echo "{\\"rows\\": $(date +1%M%S)}" > "$CHRONO_OUTPUT"',
            "schedule": {"everySec": 60, "anchor": instant_text(now + FIRST_EXTRACT)},
            "tags": ["demo"],
        },
        {
            "name": "demo-transform",
            "description": f"Runs after each demo-extract, and reads its output. {NOTE}",
            "command": TRANSFORM,
            "dependsOn": ["demo-extract"],
            "tags": ["demo"],
        },
        {
            "name": "demo-report",
            "description": f"Runs after both, and prints what they left. {NOTE}",
            "command": 'echo "what the upstreams left:"; cat "$CHRONO_INPUTS"',
            "dependsOn": ["demo-extract", "demo-transform"],
            "tags": ["demo"],
        },
    ]
