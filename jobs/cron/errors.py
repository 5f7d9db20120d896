"""What is wrong with a schedule, said so that its author can correct it."""


class InvalidSchedule(ValueError):  # noqa: N818 - the name is part of the contract with callers
    """A schedule that cannot be used. `field` names the part at fault, the message says why."""

    def __init__(self, message: str, *, field: str = "expression") -> None:
        super().__init__(message)
        self.field = field


class NeverFires(InvalidSchedule):
    """A well-formed schedule that has no tick, or none any more."""


def shown(text: str, limit: int = 40) -> str:
    """`text` as it can stand in a message: quoted, escaped, and cut when it is long."""
    if len(text) <= limit:
        return ascii(text)
    return f"{text[:limit]!a}… ({len(text)} characters)"
