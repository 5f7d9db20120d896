"""What ends a start, told to a person."""


class UpError(Exception):
    """A start that cannot go on; the message is one clear line."""


class StopRequestedError(Exception):
    """Ctrl-C, SIGTERM or a closed terminal while something was under way."""
