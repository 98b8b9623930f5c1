"""Which stream an event belongs to, and the names that a recorder may bear."""

from __future__ import annotations

from typing import Any, Final

from ledger.client.drafts import Actor
from ledger.core.errors import InvalidInput
from ledger.core.text import is_header_text
from ledger.events.registry import EventType
from ledger.events.streams import kind_of_claim

_CLAIM: Final = "claim.recorded"
_IDS: Final = {"export": "export_id", "campaign": "campaign_id"}
"""Kinds of stream that a payload names, and the field that does."""


def stream_of(kind: EventType, run: str, plain: Any) -> str:
    """The run's stream, or that of the export or campaign that the payload names.

    Raises:
        InvalidInput: if it is neither.
    """
    if kind.type == _CLAIM:
        return _of_claim(run, plain.get("subject"))
    if "run" in kind.streams:
        return f"run/{run}"
    family = kind.streams[0]
    named = plain.get(_IDS.get(family, ""))
    if not isinstance(named, str):
        raise InvalidInput(f"{kind.type} belongs to no run", remedy="Name its stream: record(..., stream='KIND/ID').")
    return f"{family}/{named}"


def _of_claim(run: str, subject: Any) -> str:
    """A claim stands with what it is about; a subject that is none is for the vocabulary to refuse."""
    about, name = (subject.get("kind"), subject.get("id")) if isinstance(subject, dict) else (None, None)
    kind = kind_of_claim(about) if isinstance(about, str) else "run"
    return f"{kind}/{name}" if kind != "run" and isinstance(name, str) else f"run/{run}"


def check(kind: EventType, stream: str) -> None:
    """Refuses a stream that holds no such event.

    Raises:
        InvalidInput: it names the kinds that do.
    """
    if not is_header_text(stream, 512) or stream.partition("/")[0] not in kind.streams:
        raise InvalidInput(
            f"the stream {stream!r} holds no {kind.type}",
            remedy=f"Name one of the kind {' or '.join(kind.streams)}: printable ASCII, at most 512 characters.",
        )


def check_attempt(attempt: int) -> None:
    """Refuses what is no number of an attempt.

    Raises:
        InvalidInput: reason USAGE.
    """
    if type(attempt) is not int or attempt < 1:
        raise _usage(f"{attempt!r} is no attempt's number", "Attempts are counted from 1.")


def check_numbers(*, attempt: int | None, rank: int | None, ranks: str, max_bytes: int) -> None:
    """Refuses numbers that a recorder can never work with.

    Raises:
        InvalidInput: reason USAGE.
    """
    if attempt is not None:
        check_attempt(attempt)
    if rank is not None and rank < 0:
        raise _usage(f"{rank!r} is no rank", "Ranks are counted from 0.")
    if ranks not in {"zero", "all"}:
        raise _usage(f"{ranks!r} is no choice of ranks", "It is 'zero' or 'all'.")
    if max_bytes < 1:
        raise _usage(f"a spool of {max_bytes!r} bytes holds nothing", "Give it room, with `max_bytes`.")


def check_names(run: str, by: Actor | None) -> None:
    """Refuses a run or an actor that no header can hold.

    Raises:
        InvalidInput: reason USAGE.
    """
    if not is_header_text(run, 500) or run != run.strip():
        raise _usage(
            f"{run!r} is no run's id", "It is printable ASCII, at most 500 characters, with no space at either end."
        )
    if by is not None and not is_header_text(by.id, 256):
        raise _usage(f"{by.id!r} is no actor's id", "It is printable ASCII, at most 256 characters.")


def _usage(what: str, remedy: str) -> InvalidInput:
    return InvalidInput(what, reason="USAGE", remedy=remedy)
