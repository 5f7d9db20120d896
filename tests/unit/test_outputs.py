"""What PostgreSQL's jsonb refuses is found in the escape itself, not in text that looks like it."""

import json

import pytest

from runs.execution import storable
from runs.executors.output import OutputError, json_text

LOOKS_LIKE_NUL = "a\\u0000b"  # a backslash and letters


@pytest.mark.parametrize("value", [LOOKS_LIKE_NUL, {"k": ["\\\\u0000", "\\ud800"]}, "é😀", None])
def test_text_that_only_looks_like_an_escape_is_kept(value: object) -> None:
    assert json.loads(json_text(value)) == value
    assert storable(value) == value


@pytest.mark.parametrize(
    ("value", "stored"),
    [("a\0b", "a\ufffdb"), ("\\\0", "\\\ufffd"), (["\ud800x"], ["?x"]), ({"\0": 1}, {"\ufffd": 1})],
)
def test_what_cannot_be_kept_is_refused_or_replaced(value: object, stored: object) -> None:
    assert storable(value) == stored
    with pytest.raises(OutputError):
        json_text(value)
