"""A Celery app whose beat reads django-celery-beat's tables: what bench.peers.every_second starts.

Each task notes when it started, and when beat sent it.
"""

import json
import os
import time
from typing import Any

import django
from celery import Celery, Task
from celery.signals import before_task_publish
from django.conf import settings

HOME, REDIS_URL = os.environ["PEER_HOME"], os.environ["REDIS_URL"]

settings.configure(
    INSTALLED_APPS=["django_celery_beat"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{HOME}/beat.sqlite3"}},
    USE_TZ=True,
    TIME_ZONE="UTC",
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
)
django.setup()

app = Celery("beat_app", broker=REDIS_URL)
app.conf.update(task_ignore_result=True, timezone="UTC", worker_prefetch_multiplier=1)


@before_task_publish.connect
def note_sent(headers: dict[str, Any], **_: object) -> None:
    """Let the message say when it was sent."""
    headers["sent_at"] = time.time()


@app.task(bind=True, name="peers.stamp")
def stamp(self: Task, kind: str) -> None:
    """Note the start at once, then keep it."""
    started = time.time()
    with open(f"{HOME}/{kind}.jsonl", "a") as notes:
        notes.write(json.dumps([self.request.sent_at, started]) + "\n")
