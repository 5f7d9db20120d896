"""Where everything is mounted."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from chronoproject.health import healthz, readyz
from chronoproject.openapi import openapi

urlpatterns = [
    path("", RedirectView.as_view(url="/admin/")),
    path("healthz", healthz),
    path("readyz", readyz),
    path("v1/openapi.json", openapi),
    path("v1/", include("jobs.api.urls")),
    path("v1/", include("runs.api.urls")),
    path("v1/", include("dag.api.urls")),
    path("admin/", admin.site.urls),
]

handler400 = "chronoproject.errors.bad_request"
handler403 = "chronoproject.errors.permission_denied"
handler404 = "chronoproject.errors.page_not_found"
handler500 = "chronoproject.errors.server_error"
