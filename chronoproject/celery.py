"""The Celery application. Queues are Redis lists named <pool>.high, <pool>.normal, <pool>.low."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chronoproject.settings")

app = Celery("chrono")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["runs"])
