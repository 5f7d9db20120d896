"""What an attempt leaves for its run to keep: a JSON value of up to 64 KiB."""

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

MAX_OUTPUT_BYTES = 64 * 1024
# The escape itself, behind no backslash or pairs of them: "\\\\u0000" is text.
NUL_IN_JSON = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


class OutputError(ValueError):
    """What was left cannot be kept; says why."""


def json_text(value: object) -> str:
    """Return the value as JSON that PostgreSQL can keep. Raises OutputError."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise OutputError(f"is not JSON: {error}") from error
    if NUL_IN_JSON.search(text):
        raise OutputError("holds a NUL character")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise OutputError("holds half of a surrogate pair") from error
    return text


def read_file(path: Path, uid: int | None) -> Any:  # noqa: ANN401 - a JSON value
    """Return the JSON value in the file that a command wrote; None when it wrote none.

    Only a plain file of the command's own user is read (`uid`; None: it is this process's): a
    link could name a file that the command itself may not see. Raises OutputError.
    """
    data = _read(path, uid)
    if len(data) > MAX_OUTPUT_BYTES:
        raise OutputError(f"is more than {MAX_OUTPUT_BYTES} bytes")
    if not data.strip():
        return None
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise OutputError(f"is not JSON: {error}") from error
    json_text(value)
    return value


def _read(path: Path, uid: int | None) -> bytes:
    try:
        # Not blocking, for it may be a pipe that nobody writes to.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise OutputError(f"cannot be read: {error.strerror}") from error
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or uid not in {None, found.st_uid}:
        os.close(fd)
        raise OutputError("is not a plain file of the command's own")
    with open(fd, "rb") as file:
        return file.read(MAX_OUTPUT_BYTES + 1)
