"""The server's own log: what happened to the process, on stderr. Not to be taken for the ledger's log of events.

For people on a terminal, one JSON object a line otherwise. A program that has configured structlog itself keeps its own
ways; otherwise what the process was last asked to run decides the level.
"""

from __future__ import annotations

import sys
from logging import getLevelNamesMapping
from typing import Any, Final

import structlog

from ledger.core.errors import InvalidInput

LEVELS: Final = ("debug", "info", "warning", "error", "critical")


def configure(level: str) -> None:
    """Sets up the log of the process, from this level on.

    Raises:
        InvalidInput: reason USAGE for a level that is none.
    """
    if level not in LEVELS:
        raise InvalidInput(
            f"there is no log level {level!r}", reason="USAGE", remedy=f"Give one of {', '.join(LEVELS)}."
        )
    if not structlog.is_configured() or structlog.get_config()["logger_factory"] is _logger:
        structlog.configure(
            processors=_processors(pretty=sys.stderr.isatty()),
            wrapper_class=structlog.make_filtering_bound_logger(getLevelNamesMapping()[level.upper()]),
            logger_factory=_logger,
        )


def _processors(*, pretty: bool) -> list[Any]:
    shared = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if pretty:
        # A plain traceback: a richer one would show the values of variables, which are other people's data.
        return [*shared, structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    return [*shared, structlog.processors.format_exc_info, structlog.processors.JSONRenderer(sort_keys=True)]


def _logger(*_names: Any) -> structlog.PrintLogger:
    """Writes to stderr as it is at the moment of the message."""
    return structlog.PrintLogger(sys.stderr)
