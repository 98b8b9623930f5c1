"""Where an answer about runs stands, said and stamped, and its rows page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from ledger.client.messages import to_dict
from ledger.core.text import harmless
from ledger.wire import runs_pb2
from services.cli import words
from services.cli.coordinates import NOW
from services.cli.exporting import Answer
from services.cli.state import Ledger


def standing(answer: runs_pb2.RunCoordinates, at: str | None) -> str:
    """Where an answer about runs stands, in one line; `at` is the moment that was asked for."""
    recorded = words.moment(answer.recorded_at_us if answer.HasField("recorded_at_us") else None)
    parts = [f"As of size {answer.size:,}", f"recorded {recorded}", f"rules of runs {answer.run_rules}"]
    if answer.rules:
        parts.append(f"rules of sources {answer.rules}")
    if answer.policy_size > answer.size:
        parts.append(f"policy of size {answer.policy_size:,}")
    still_open = not answer.final and at not in (None, NOW)
    ending = "; that moment is not past, so the answer may still change" if still_open else ""
    return harmless(", ".join(parts) + ending)


def coordinates_dict(answer: runs_pb2.RunCoordinates) -> dict[str, Any]:
    """Where an answer stands; rules of sources are null where none were asked for."""
    return to_dict(answer) | {"rules": answer.rules or None}


def asked(ledger: Ledger, pages: Iterator[Any], field: str) -> tuple[Any, Answer]:
    """The first page, and its rows and those of the later ones, each page taken when its rows are."""
    first = next(pages)
    rows: Iterator[Sequence[Any]] = (getattr(page, field) for page in chain([first], pages))
    where = coordinates_dict(first.coordinates)
    stamp = {f"ledger_{name}": where[name] for name in ("size", "run_rules", "rules", "policy_size")}
    return first, Answer(rows, stamp, where, {"origin": ledger.reader.info().origin, **where})
