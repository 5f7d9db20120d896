"""The peers' tasks for bench.throughput: each execution leaves a byte in PEER_HOME/done."""

import os
import subprocess
from urllib.parse import urlsplit

import django
from celery import Celery
from django.conf import settings

PEER = os.environ["PEER"]
HOME, REDIS_URL, DATABASE_URL = (os.environ[name] for name in ("PEER_HOME", "REDIS", "DB"))
DONE = os.open(f"{HOME}/done", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

parts = urlsplit(DATABASE_URL)
settings.configure(
    INSTALLED_APPS=["django_celery_results"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path[1:],
            "USER": parts.username,
            "PASSWORD": parts.password,
            "HOST": parts.hostname,
            "PORT": parts.port,
        }
    },
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
)

app = Celery("throughput_app", broker=REDIS_URL)
if PEER == "celery-results":
    django.setup()
    app.conf.update(result_backend="django-db")
else:
    app.conf.update(task_ignore_result=True)


@app.task(name="peers.noop")
def noop() -> None:
    """Do nothing but be counted."""
    os.write(DONE, b".")


@app.task(name="peers.true")
def true() -> None:
    """Run the command and be counted."""
    subprocess.run(["true"], check=True)
    os.write(DONE, b".")
