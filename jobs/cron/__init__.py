"""Cron expressions in time zones: pure, by the pinned tzdata alone."""

from jobs.cron.describe import describe
from jobs.cron.errors import InvalidSchedule, NeverFires
from jobs.cron.evaluator import DstPolicy, Evaluator
from jobs.cron.preview import Note, Preview, PreviewTick, preview
from jobs.cron.ticks import DST_POLICIES, check, evaluator_for, instant_of, next_ticks
from jobs.cron.zones import TZDATA_VERSION, zone_info, zone_names

__all__ = [
    "DST_POLICIES",
    "TZDATA_VERSION",
    "DstPolicy",
    "Evaluator",
    "InvalidSchedule",
    "NeverFires",
    "Note",
    "Preview",
    "PreviewTick",
    "check",
    "describe",
    "evaluator_for",
    "instant_of",
    "next_ticks",
    "preview",
    "zone_info",
    "zone_names",
]
