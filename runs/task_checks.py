"""What is wrong with a Python task's call, told by the field of the payload it stands in."""

from collections.abc import Mapping, Sequence
from typing import Any

from runs.task_registry import check_arguments


def check_task(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (field, message) for a name that is not registered, or arguments that do not fit."""
    try:
        check_arguments(name, args, kwargs)
    except LookupError as error:
        return [("task", f"is not registered: {error.args[0]}")]
    except TypeError as error:
        # the signature's own words; a keyword that it names was given, or is missing, by name
        field = "kwargs" if "keyword argument" in str(error) or kwargs else "args"
        return [(field, f"do not fit the task {name}: {error}")]
    return []
