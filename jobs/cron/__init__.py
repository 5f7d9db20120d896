"""Cron expressions in time zones: pure, by the pinned tzdata alone."""

from jobs.cron.errors import InvalidSchedule, NeverFires
from jobs.cron.evaluator import DstPolicy, Evaluator
from jobs.cron.ticks import DST_POLICIES, check, evaluator_for, instant_of, next_ticks
from jobs.cron.zones import TZDATA_VERSION, zone_info, zone_names

__all__ = [
    "DST_POLICIES",
    "TZDATA_VERSION",
    "DstPolicy",
    "Evaluator",
    "InvalidSchedule",
    "NeverFires",
    "check",
    "evaluator_for",
    "instant_of",
    "next_ticks",
    "zone_info",
    "zone_names",
]
