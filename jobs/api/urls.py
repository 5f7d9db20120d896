"""Where the jobs' views are, below /v1/. Ids are any text: what is no id answers 404, as JSON."""

from django.urls import path

from jobs.api import schedules, views

urlpatterns = [
    path("schedules/preview", schedules.SchedulePreviewView.as_view()),
    path("jobs", views.JobListView.as_view()),
    path("jobs/<str:job_id>", views.JobView.as_view()),
    path("jobs/<str:job_id>/pause", views.JobPauseView.as_view()),
    path("jobs/<str:job_id>/resume", views.JobResumeView.as_view()),
    path("jobs/<str:job_id>/versions", views.JobVersionListView.as_view()),
]
