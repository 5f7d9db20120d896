"""Where the views of dag are, below /v1/."""

from django.urls import path

from dag.api import views

urlpatterns = [
    path("dags/<str:job_id>", views.DagView.as_view()),
    path("runs/<str:run_id>/upstream", views.RunUpstreamView.as_view()),
    path("runs/<str:run_id>/downstream/rerun", views.RunDownstreamRerunView.as_view()),
]
