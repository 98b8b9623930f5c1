"""Every error a user can meet, and what each becomes at every door.

One class, one table. `reason` is stable and UPPER_SNAKE; `REASONS` maps it to the gRPC status code's name, the HTTP
status and the exit code of the command. A message says what happened and where; a remedy says what to do.

    LedgerError
      InvalidInput        the request itself is wrong: fix it, do not repeat it
      Refused             the request is well formed; the log or the rules say no
      Unavailable         nobody answered, or not in time: safe to repeat
      Broken              stored bytes do not say what they must
"""

# ruff: noqa: N818  # the names are read where they are raised: raise Refused, raise NotFound

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

DOMAIN: Final = "atlas.ledger"


class Door(NamedTuple):
    """What a reason becomes: gRPC status name, HTTP status, exit code, and its one-line meaning for the help."""

    grpc: str
    http: int
    exit: int
    meaning: str


REASONS: Final[Mapping[str, Door]] = MappingProxyType(
    {
        "INVALID_ARGUMENT": Door("INVALID_ARGUMENT", 400, 1, "a field of the request is wrong"),
        "INVALID_PAYLOAD": Door("INVALID_ARGUMENT", 400, 1, "a payload is not strict JSON of its type"),
        "UNKNOWN_EVENT_TYPE": Door("INVALID_ARGUMENT", 400, 1, "this server does not take that type or version"),
        "TOO_LARGE": Door("INVALID_ARGUMENT", 413, 1, "a limit of GetInfo is exceeded"),
        "INVALID_FILE": Door("INVALID_ARGUMENT", 400, 1, "a file does not hold what it must"),
        "NO_ROWS": Door("INVALID_ARGUMENT", 400, 1, "files that must hold rows hold none"),
        "USAGE": Door("INVALID_ARGUMENT", 400, 2, "a flag or a setting is wrong"),
        "EXTRA_MISSING": Door("FAILED_PRECONDITION", 500, 2, "an optional part is not installed"),
        "NOT_FOUND": Door("NOT_FOUND", 404, 4, "no such source, event, position or artifact"),
        "ID_CONFLICT": Door("ALREADY_EXISTS", 409, 5, "the id is taken by other content"),
        "PARTLY_RECORDED": Door("ALREADY_EXISTS", 409, 5, "an atomic request of which only a part is known"),
        "CONDITION_FAILED": Door("FAILED_PRECONDITION", 409, 5, "a condition of the request does not hold"),
        "REFUSED_BY_RULES": Door("FAILED_PRECONDITION", 409, 5, "the rules in force refuse the decision"),
        "ARTIFACT_MISSING": Door("FAILED_PRECONDITION", 409, 5, "a cited artifact is not stored"),
        "HASH_MISMATCH": Door("FAILED_PRECONDITION", 409, 5, "bytes do not hash to their name"),
        "NOT_SUPPORTED": Door("UNIMPLEMENTED", 501, 1, "this release cannot carry it out, so it does not record it"),
        "IN_USE": Door("FAILED_PRECONDITION", 409, 5, "another process holds the home"),
        "WRONG_HOME": Door("FAILED_PRECONDITION", 409, 5, "the home or database belongs to something else"),
        "RULES_CHANGED": Door("FAILED_PRECONDITION", 409, 5, "a rule set in force differs from this release's"),
        "NOT_ADOPTED": Door("FAILED_PRECONDITION", 409, 5, "the rule set was not adopted, so it cannot be promoted"),
        "DIFF_MOVED": Door("FAILED_PRECONDITION", 409, 5, "a promotion would move something else than was confirmed"),
        "SCHEMA_VERSION": Door("FAILED_PRECONDITION", 409, 5, "the database's schema is not this release's"),
        "UNSAFE_STORE": Door("FAILED_PRECONDITION", 500, 1, "the store may lose what it acknowledged"),
        "NOT_PERMITTED": Door("PERMISSION_DENIED", 403, 1, "the caller may not do this"),
        "QUEUE_FULL": Door("RESOURCE_EXHAUSTED", 429, 6, "too much is waiting; repeat after the delay"),
        "BEHIND": Door("UNAVAILABLE", 503, 6, "the projection has not come as far as asked"),
        "UNAVAILABLE": Door("UNAVAILABLE", 503, 6, "the service or its store cannot be reached"),
        "DEADLINE": Door("DEADLINE_EXCEEDED", 504, 6, "no answer in time"),
        "INTERRUPTED": Door("CANCELLED", 499, 130, "stopped by the caller"),
        "VERIFICATION_FAILED": Door("DATA_LOSS", 500, 3, "a hash, a proof or fsck does not hold"),
        "INTERNAL": Door("INTERNAL", 500, 1, "a fault of the server"),
    }
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, with its place: a field, a JSON pointer, a file and line, or a condition."""

    place: str
    message: str


class LedgerError(Exception):
    """An error for people and programs alike.

    Args:
        reason: A key of `REASONS`.
        message: What happened, with the place.
        remedy: What to do about it.
        details: Flat text values for programs.
        problems: Every single thing that was wrong, when there may be several.
    """

    default_reason = "INTERNAL"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        remedy: str = "",
        details: Mapping[str, str] | None = None,
        problems: Iterable[Problem] = (),
    ) -> None:
        self.reason = reason or self.default_reason
        if self.reason not in REASONS:
            raise ValueError(f"unknown reason {self.reason}")
        self.message = message
        self.remedy = remedy
        self.details = dict(details or {})
        self.problems = tuple(problems)
        super().__init__(message)

    @property
    def door(self) -> Door:
        return REASONS[self.reason]

    def to_dict(self) -> dict[str, object]:
        """The one JSON shape of an error, at every door."""
        return {
            "reason": self.reason,
            "message": self.message,
            "remedy": self.remedy,
            "details": self.details,
            "problems": [{"place": p.place, "message": p.message} for p in self.problems],
        }


class InvalidInput(LedgerError):
    """The request itself is wrong."""

    default_reason = "INVALID_ARGUMENT"


class Refused(LedgerError):
    """The log or the rules say no to a well-formed request."""

    default_reason = "REFUSED_BY_RULES"


class NotFound(LedgerError):
    """There is no such thing at these coordinates."""

    default_reason = "NOT_FOUND"


class Unavailable(LedgerError):
    """Nobody answered, or not in time. Safe to repeat."""

    default_reason = "UNAVAILABLE"


class Broken(LedgerError):
    """Stored bytes do not say what they must."""

    default_reason = "VERIFICATION_FAILED"
