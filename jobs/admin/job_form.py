"""The form of a job's definition: it speaks the API's words, and the services write it."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError

from chronoproject.errors import FieldError
from jobs.body import json_object
from jobs.definition import api_form, definition_of
from jobs.errors import FieldErrors
from jobs.hooks import Edge, hooks
from jobs.kinds import ALL
from jobs.models import Job

if TYPE_CHECKING:
    from django.forms import Textarea as UnfoldAdminTextareaWidget
    from django.forms import TextInput as UnfoldAdminTextInputWidget

    INPUT_CLASSES: list[str]
else:  # unfold ships no types
    from unfold.widgets import (
        INPUT_CLASSES,
        UnfoldAdminTextareaWidget,
        UnfoldAdminTextInputWidget,
    )

# The API's name of each field of the form whose two names are not the same word.
API_NAMES: Mapping[str, str] = {
    "depends_on": "dependsOn",
    "dst_policy": "dstPolicy",
    "starts_at": "startsAt",
    "ends_at": "endsAt",
    "timeout_sec": "timeoutSec",
    "kill_grace_sec": "killGraceSec",
    "max_retries": "retries",
    "backoff_base_sec": "backoff.baseSec",
    "backoff_factor": "backoff.factor",
    "backoff_max_sec": "backoff.maxSec",
    "backoff_jitter": "backoff.jitter",
    "retry_on": "retryOn",
    "max_concurrency": "maxConcurrency",
    "concurrency_policy": "concurrencyPolicy",
    "concurrency_key": "concurrencyKey",
    "misfire_policy": "misfirePolicy",
    "misfire_grace_sec": "misfireGraceSec",
    "max_catchup": "maxCatchup",
    "trigger_rule": "triggerRule",
    "dependency_timeout_sec": "dependencyTimeoutSec",
    "sla_sec": "slaSec",
    "run_at": "schedule.runAt",
    "every_sec": "schedule.everySec",
    "anchor": "schedule.anchor",
}
SAME_NAMES = ("name", "description", "tags", "timezone", "env", "priority", "pool", "enabled")
TIMES = ("starts_at", "ends_at")
MINE = ("command", "payload", "depends_on", "schedule", "run_at", "every_sec", "anchor", "retry_on")


class InstantInput(forms.DateTimeInput):
    """The browser's own field for an instant; its value is UTC."""

    input_type = "datetime-local"

    def __init__(self) -> None:
        look = {"class": " ".join(INPUT_CLASSES), "step": "1"}
        super().__init__(attrs=look, format="%Y-%m-%dT%H:%M:%S")


class _Decoder(json.JSONDecoder):
    """Refuses a key that stands twice in one object, as the API does."""

    def __init__(self) -> None:
        super().__init__(object_pairs_hook=json_object)

    def decode(self, text: str) -> Any:  # type: ignore[override]  # noqa: ANN401 - any JSON value
        """Decode; raise JSONDecodeError alone, which is what Django's field looks for."""
        try:
            return super().decode(text)
        except json.JSONDecodeError:
            raise
        except ValueError as error:
            raise json.JSONDecodeError(str(error), text, 0) from error


class OptionalJson(forms.JSONField):
    """JSON where nothing is typed for nothing, rather than null."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - Django's arguments
        super().__init__(**{**kwargs, "decoder": _Decoder})

    def to_python(self, value: Any) -> Any:  # noqa: ANN401 - text in, any JSON value out
        """Decode what was typed; say where it is no JSON, or not clear."""
        try:
            return super().to_python(value)
        except ValidationError as error:
            if isinstance(error.__context__, json.JSONDecodeError):
                raise ValidationError(f"Enter a valid JSON: {error.__context__.msg}.") from error
            raise

    def prepare_value(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Show an empty field for none."""
        return "" if value is None else super().prepare_value(value)


class JobForm(forms.ModelForm[Job]):
    """A job's definition. `refusals` are what a service refused the last time it was sent."""

    refusals: Sequence[FieldError] = ()

    command = forms.CharField(
        required=False,
        strip=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text="A line for /bin/sh -c, or a JSON list of words to run without a shell.",
    )
    payload = OptionalJson(
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 8}),
        help_text='In place of a command: {"type": "http", "url": …} or {"type": "task", …}.',
    )
    depends_on = OptionalJson(
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text='A list of job ids, or of {"jobId": …, "match": "tick"|"day", "dayOffset": 0}.',
    )
    retry_on = OptionalJson(
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        help_text='JSON: "all", or a list of exit codes, HTTP statuses and kinds of failure.',
    )
    version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = Job
        fields = "__all__"  # noqa: DJ007 - the admin's fieldsets name the fields
        labels = {
            "owner": "Team",
            "schedule": "Cron",
            "timezone": "Time zone",
            "run_at": "Once at",
            "every_sec": "Every (s)",
            "dst_policy": "When clocks change",
            "env": "Environment",
            "timeout_sec": "Time limit (s)",
            "kill_grace_sec": "Grace before SIGKILL (s)",
            "max_retries": "Retries",
            "backoff_base_sec": "Back-off: first wait (s)",
            "backoff_factor": "Back-off: factor",
            "backoff_max_sec": "Back-off: longest wait (s)",
            "backoff_jitter": "Back-off: jitter",
            "dependency_timeout_sec": "Wait for upstreams (s)",
            "max_concurrency": "Runs at once",
            "misfire_grace_sec": "Misfire grace (s)",
            "max_catchup": "Most to catch up",
            "sla_sec": "Should end within (s)",
        }
        widgets = {
            "description": UnfoldAdminTextareaWidget(attrs={"rows": 2}),
            "tags": UnfoldAdminTextInputWidget(),
            "env": UnfoldAdminTextareaWidget(attrs={"rows": 4}),
        }
        field_classes = {"env": OptionalJson}
        help_texts = {
            "max_concurrency": "Empty: no limit.",
            "starts_at": "No tick before this instant (UTC).",
            "ends_at": "No tick after this instant (UTC).",
            "anchor": "Of an interval: ticks at anchor + k·interval (UTC). Default: its creation.",
            "schedule": "Cron: five fields, or six with seconds first, or @daily and the like.",
            "run_at": "Once, at this instant (UTC). In place of cron or an interval.",
            "every_sec": "An interval in seconds. In place of cron or an instant.",
            "tags": "Words, with commas between them.",
            "env": 'A JSON object of texts: {"NAME": "value"}.',
            "enabled": "Off: no ticks; runs that exist go on.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Django's signature
        super().__init__(*args, **kwargs)
        if self.instance.pk and not self.instance._state.adding:
            self._show(self.instance)

    def _show(self, job: Job) -> None:
        """Put the stored definition into the fields that the model does not have."""
        stored = api_form(definition_of(job, edges_of(job)))
        command = stored["command"]
        self.initial["command"] = json.dumps(command) if isinstance(command, list) else command
        self.initial["payload"] = stored["payload"]
        self.initial["depends_on"] = stored["dependsOn"]
        self.initial["retry_on"] = stored["retryOn"]
        self.initial["version"] = job.version

    def clean(self) -> dict[str, Any]:
        """Add what the services refused; they alone judge a definition."""
        cleaned = super().clean() or {}
        for field, message in self.refusals:
            name = form_field(field)
            target = name if name in self.fields else None
            is_whole = target is not None and field == API_NAMES.get(name, name)
            told = message if is_whole or not field else f"{field}: {message}"
            self.add_error(target, ValidationError(told))
        return cleaned

    def _post_clean(self) -> None:
        """Leave the instance alone: it is written by a service, not from here."""

    def definition(self) -> dict[str, Any]:
        """Return what was typed as the API writes it."""
        given = self.cleaned_data
        made: dict[str, Any] = {name: given[name] for name in SAME_NAMES if name in given}
        for name, api_name in API_NAMES.items():
            if name in given and name not in MINE and "." not in api_name:
                made[api_name] = self._time(name) if name in TIMES else given[name]
        made["backoff"] = {
            API_NAMES[name].partition(".")[2]: given[name]
            for name in API_NAMES
            if name.startswith("backoff_") and name in given
        }
        made["tags"] = list(given.get("tags") or [])
        made["env"] = given.get("env") or {}
        made["retryOn"] = given.get("retry_on") or ALL
        made["dependsOn"] = given.get("depends_on") or []
        made["schedule"] = self._schedule()
        return made | self._work()

    def _schedule(self) -> Any:  # noqa: ANN401 - text, object or null
        given = self.cleaned_data
        chosen = [name for name in ("schedule", "run_at", "every_sec") if given.get(name)]
        if len(chosen) > 1:
            raise FieldErrors([("schedule", "is one of cron, instant and interval, not two")])
        if not chosen:
            return None
        if chosen == ["schedule"]:
            return given["schedule"]
        if chosen == ["run_at"]:
            return {"runAt": self._time("run_at")}
        anchor = {"anchor": self._time("anchor")} if given.get("anchor") else {}
        return {"everySec": given["every_sec"], **anchor}

    def _work(self) -> dict[str, Any]:
        given = self.cleaned_data
        command, payload = given.get("command") or "", given.get("payload")
        work = {} if payload is None else {"payload": payload}
        return {**work, "command": words_or_line(command)} if command.strip() else work

    def _time(self, name: str) -> str | None:
        """Return an instant; an untouched one as it is stored, with its microseconds."""
        untouched = not self.instance._state.adding and name not in self.changed_data
        value: datetime | None = (
            getattr(self.instance, name) if untouched else self.cleaned_data.get(name)
        )
        return None if value is None else value.astimezone(UTC).isoformat()


def words_or_line(command: str) -> Any:  # noqa: ANN401 - a text or a list
    """Return a JSON list of words as a list, all else as the line it is."""
    text = command.replace("\r\n", "\n")
    if text.lstrip().startswith("["):
        try:
            words = json.loads(text)
        except ValueError:
            return text
        if isinstance(words, list):
            return words
    return text


def form_field(api_field: str) -> str:
    """Return the form's field for one that the API names, such as backoff.maxSec."""
    by_api = {api: name for name, api in API_NAMES.items()}
    if api_field in by_api:
        return by_api[api_field]
    head = api_field.partition(".")[0].partition("[")[0]
    return by_api.get(head, head)


def edges_of(job: Job) -> Sequence[Edge]:
    """Return the job's upstream edges, as far as the app that keeps them is there."""
    return hooks.edges.edges_of([job.job_id]).get(job.job_id, ()) if hooks.edges else ()
