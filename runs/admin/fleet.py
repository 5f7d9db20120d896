"""Who does the work and who should know: workers, leases, alerts."""

from datetime import timedelta

from django.conf import settings
from django.contrib import admin
from django.db.models import Prefetch, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.safestring import SafeString

from chronoproject.adminkit.base import ChronoAdmin, ReadOnlyKeysetAdmin, ReadOnlyMixin, read_at
from chronoproject.adminkit.display import EMPTY, column, instant, json_block, link
from chronoproject.adminkit.filters import (
    AutocompleteSelectFilter,
    ExactTextFilter,
    TeamFilter,
    TimeWindowFilter,
)
from jobs.models import Job
from runs.admin.common import job_url, run_url, runs_url
from runs.figures import QUEUE_KIND
from runs.models import Alert, Figure, Lease, Worker

BEATS_MISSED = 3
WORKER_LABELS = {
    "running": "success",
    "draining": "warning",
    "stopped": "default",
    "gone": "danger",
}


def is_silent(worker: Worker) -> bool:
    """Return whether a worker that should be there has missed its heartbeats."""
    limit = timedelta(seconds=BEATS_MISSED * settings.CHRONO_HEARTBEAT_SEC + 1)
    return worker.state != "stopped" and worker.last_seen_at < read_at(worker) - limit


@admin.register(Worker)
class WorkerAdmin(ReadOnlyMixin, ChronoAdmin[Worker]):
    """Worker processes, the last seen first."""

    list_display = (
        "status",
        "worker_id",
        "hostname",
        "pid",
        "in_pools",
        "busy",
        "version",
        "started",
        "seen",
    )
    list_display_links = ("worker_id",)
    search_fields = ("worker_id", "hostname")
    search_help_text = "Part of a worker's name or host"
    ordering = ("-last_seen_at", "worker_id")
    actions = None
    fields = list_display

    def get_queryset(self, request: HttpRequest) -> QuerySet[Worker]:
        """Add the time of reading."""
        return super().get_queryset(request).annotate(read_at=Now())

    @column("state", label=WORKER_LABELS)
    def status(self, worker: Worker) -> str:
        """Return its own word, or "gone" when it says nothing any more."""
        return "gone" if is_silent(worker) else worker.state

    @column("pools")
    def in_pools(self, worker: Worker) -> str:
        """Return what it takes runs from."""
        return ", ".join(worker.pools)

    @column("running")
    def busy(self, worker: Worker) -> SafeString:
        """Link to what it executes."""
        text = f"{worker.running} of {worker.concurrency}"
        return link(runs_url(status="running", worker_id=worker.worker_id), text)

    @column("started", ordering="started_at")
    def started(self, worker: Worker) -> SafeString | str:
        """Return when it started."""
        return instant(worker.started_at, read_at(worker))

    @column("last seen", ordering="last_seen_at")
    def seen(self, worker: Worker) -> SafeString | str:
        """Return its last heartbeat."""
        return instant(worker.last_seen_at, read_at(worker))


@admin.register(Lease)
class LeaseAdmin(ReadOnlyMixin, ChronoAdmin[Lease]):
    """Named rights: a dispatcher's shards, the maintenance process."""

    list_display = ("name", "state", "holder", "until", "term")
    list_display_links = None
    search_fields = ("name", "holder")
    ordering = ("name",)
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Lease]:
        """Add the time of reading."""
        return super().get_queryset(request).annotate(read_at=Now())

    @column("state", label={"held": "success", "free": "warning"})
    def state(self, lease: Lease) -> str:
        """Return whether anybody holds it now."""
        return "held" if lease.lease_until > read_at(lease) else "free"

    @column("until", ordering="lease_until")
    def until(self, lease: Lease) -> SafeString | str:
        """Return how long it is held if it is not renewed."""
        return instant(lease.lease_until, read_at(lease))


@admin.register(Figure)
class FigureAdmin(ReadOnlyMixin, ChronoAdmin[Figure]):
    """What dispatchers and queues tell of themselves."""

    list_display = ("kind", "name", "summary", "written")
    list_display_links = ("name",)
    ordering = ("kind", "name")
    actions = None
    fields = ("kind", "name", "written", "whole")
    readonly_fields = ("whole",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Figure]:
        """Add the time of reading."""
        return super().get_queryset(request).annotate(read_at=Now())

    @column("in short")
    def summary(self, figure: Figure) -> str:
        """Return what an operator asks first."""
        told = figure.figures
        if figure.kind == QUEUE_KIND:
            waiting = f"{told['runs']} runs queued, the oldest for {told['oldest_age_sec']:.0f} s"
            is_unserved = told["runs"] and not told.get("has_worker", True)
            return f"{waiting}; no worker serves this pool" if is_unserved else waiting
        last = told["last"]
        ticks = f"{told['totals']['ticks']} ticks, {len(told['shards'])} shards"
        return f"{ticks}, last lag {last['lag_sec'] * 1000:.0f} ms" if last else ticks

    @column("written", ordering="written_at")
    def written(self, figure: Figure) -> SafeString | str:
        """Return how old this is."""
        return instant(figure.written_at, read_at(figure))

    @column("figures")
    def whole(self, figure: Figure) -> SafeString | str:
        """Return all of it."""
        return json_block(figure.figures)


class KindFilter(ExactTextFilter):
    """Alerts of one kind."""

    title = "kind"
    parameter_name = "kind"


class CreatedFilter(TimeWindowFilter):
    """Alerts by their time."""

    column = "created_at"
    default = "all"


@admin.register(Alert)
class AlertAdmin(ReadOnlyKeysetAdmin[Alert]):
    """What somebody should know, newest first."""

    list_display = ("what", "message", "job_name", "run", "team", "created", "delivered")
    list_display_links = ("message",)
    list_filter = (
        KindFilter,
        CreatedFilter,
        ("job", AutocompleteSelectFilter),
        ("owner", TeamFilter),
    )
    keyset = ("-alert_id",)
    actions = None
    fields = ("what", "message", "job_name", "run", "team", "created", "delivered", "whole")
    readonly_fields = ("whole",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Alert]:
        """Add the time of reading, and jobs and teams by look-ups of their own."""
        jobs = Prefetch("job", Job.objects.only("job_id", "name"))
        rows = super().get_queryset(request).annotate(read_at=Now())
        return rows.prefetch_related(jobs, "owner")

    @column("kind", label=True)
    def what(self, alert: Alert) -> str:
        """Return the kind."""
        return alert.kind

    @column("job")
    def job_name(self, alert: Alert) -> SafeString | str:
        """Link to the job."""
        return link(job_url(alert.job.job_id), alert.job.name) if alert.job else EMPTY

    @column("run")
    def run(self, alert: Alert) -> SafeString | str:
        """Link to the run."""
        return link(run_url(alert.run_id), "its run", str(alert.run_id)) if alert.run_id else EMPTY

    @column("team")
    def team(self, alert: Alert) -> str:
        """Return whose it is."""
        return str(alert.owner or EMPTY)

    @column("raised")
    def created(self, alert: Alert) -> SafeString | str:
        """Return when it was raised."""
        return instant(alert.created_at, read_at(alert))

    @column("delivered")
    def delivered(self, alert: Alert) -> SafeString | str:
        """Return when it was delivered."""
        return instant(alert.delivered_at, read_at(alert))

    @column("detail")
    def whole(self, alert: Alert) -> SafeString | str:
        """Return all of the detail."""
        return json_block(alert.detail)
