"""Where the runs' views are, below /v1/."""

from django.urls import path

from runs.api import ledger, logs, views

urlpatterns = [
    path("jobs/<str:job_id>/runs", views.JobRunListView.as_view()),
    path("jobs/<str:job_id>/trigger", views.JobTriggerView.as_view()),
    path("jobs/<str:job_id>/ticks", ledger.JobTicksView.as_view()),
    path("jobs/<str:job_id>/backfill", ledger.JobBackfillView.as_view()),
    path("runs", views.RunListView.as_view()),
    path("runs/<str:run_id>", views.RunView.as_view()),
    path("runs/<str:run_id>/attempts", views.RunAttemptsView.as_view()),
    path("runs/<str:run_id>/explain", views.RunExplainView.as_view()),
    path("runs/<str:run_id>/cancel", views.RunCancelView.as_view()),
    path("runs/<str:run_id>/rerun", views.RunRerunView.as_view()),
    path("runs/<str:run_id>/logs", logs.RunLogsView.as_view()),
]
