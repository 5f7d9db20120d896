"""The closed vocabularies of a job's definition."""

from django.db import models


class JobKind(models.TextChoices):
    """What a run of the job executes."""

    COMMAND = "command"
    HTTP = "http"
    TASK = "task"


class Priority(models.TextChoices):
    """Which of a pool's three queues a run goes to."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class MisfirePolicy(models.TextChoices):
    """What becomes of ticks found later than misfire_grace_sec."""

    RUN_ONCE = "run_once"
    RUN_ALL = "run_all"
    SKIP = "skip"


class ConcurrencyPolicy(models.TextChoices):
    """What becomes of a tick that finds the job at max_concurrency."""

    QUEUE = "queue"
    SKIP = "skip"
    CANCEL_RUNNING = "cancel_running"


class TriggerRule(models.TextChoices):
    """Which outcomes of the upstream runs release a downstream run."""

    ALL_SUCCESS = "all_success"
    ALL_DONE = "all_done"
    ONE_SUCCESS = "one_success"
    ONE_FAILED = "one_failed"
    NONE_FAILED = "none_failed"


class DstPolicy(models.TextChoices):
    """What becomes of a fixed-time tick whose wall-clock time a zone skips."""

    VIXIE = "vixie"
    SKIP = "skip"


class TokenRole(models.TextChoices):
    """What a team's token may do."""

    EDITOR = "editor"
    VIEWER = "viewer"


class Change(models.TextChoices):
    """Why a version of a definition came to be."""

    CREATE = "create"
    UPDATE = "update"
    PAUSE = "pause"
    RESUME = "resume"
    DELETE = "delete"
    SYSTEM = "system"
