"""GET /v1/openapi.json: what drf-spectacular finds in the views, and the components they name."""

from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator

from dag.api import openapi as of_dag
from jobs.api import openapi as of_jobs
from runs.api import openapi as of_runs


def add_components(result: dict[str, Any], **kwargs: object) -> dict[str, Any]:
    """Add the schemas that the views refer to; called by drf-spectacular at the end."""
    schemas = {**of_jobs.components(), **of_runs.components(), **of_dag.components()}
    result.setdefault("components", {})["schemas"] = dict(sorted(schemas.items()))
    return result


@cache
def document() -> dict[str, Any]:
    """Return the document, made once a process."""
    made: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return made


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """Answer the document; it tells nothing that needs a token."""
    return JsonResponse(document())
