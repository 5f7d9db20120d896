"""How a log line is written; named by the settings, so nothing of Django is imported here."""

import copy
import logging

CLIENT_ERRORS = range(400, 500)


class PlainFormatter(logging.Formatter):
    """Keeps tracebacks for our own defects.

    Django logs one with whatever a client may not do (a 403 of the admin, an unknown Host), where
    the line alone says all.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line, and the traceback of what is no client's doing."""
        if getattr(record, "status_code", None) in CLIENT_ERRORS:
            record = copy.copy(record)
            record.exc_info = record.exc_text = None
        return super().format(record)
