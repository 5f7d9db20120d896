"""Every line of the public truth table, one test a line."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from jobs.cron import InvalidSchedule, NeverFires, next_ticks

CORPUS = Path(__file__).parents[2] / "data" / "cron_public.jsonl"
LINES: list[dict[str, Any]] = [json.loads(line) for line in CORPUS.read_text().splitlines()]


def _name(place: int, line: dict[str, Any]) -> str:
    category = line["why"].split(":")[0]
    return ascii(f"{place:03} {category} [{line['expr'][:40]}] {line['tz']}").strip("'")


def _ask(line: dict[str, Any]) -> list[str]:
    after = datetime.fromisoformat(line["after"])
    ticks = next_ticks(line["expr"], line["tz"], after, 5, hash_id=line.get("hash_id"))
    return [tick.strftime("%Y-%m-%dT%H:%M:%SZ") for tick in ticks]


@pytest.mark.parametrize("line", LINES, ids=[_name(n, line) for n, line in enumerate(LINES, 1)])
def test_corpus_line(line: dict[str, Any]) -> None:
    if "expect" in line:
        assert _ask(line) == line["expect"], line["why"]
        return
    with pytest.raises(InvalidSchedule) as refused:
        _ask(line)
    assert isinstance(refused.value, NeverFires) == (line["error"] == "never"), line["why"]
    assert refused.value.field in str(refused.value) or refused.value.field == "expression"


def test_corpus_is_complete() -> None:
    assert len(LINES) == 459
