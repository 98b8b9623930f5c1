"""What an import found, and what it could not make out: told before anything is appended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from services.adapters.backfill.documents import Document

MAX_PLACES: Final = 50
"""Places of one kind that are told; all are counted."""


@dataclass(frozen=True)
class Unread:
    """A line or a file that looks like a fact and is none."""

    place: str
    what: str


@dataclass
class Account:
    """Counts of one import, filled while its files are read."""

    documents: list[Document] = field(default_factory=list)
    first_step: int | None = None
    last_step: int | None = None
    rows: int = 0
    """Steps whose metrics were read."""
    attempts: list[dict[str, Any]] = field(default_factory=list)
    order: str | None = None
    """By what the files were put in order; null: there was nothing to order."""
    duplicates: int = 0
    """Rows that were there before, word for word."""
    malformed: int = 0
    unread: list[Unread] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """What was understood and cannot be recorded, by its reason."""
    redactions: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=dict)
    """Further numbers of the one kind of file."""

    def malformed_at(self, document: Document, line: int, what: str) -> None:
        self.unreadable(f"{document.name}:{line}", what)

    def unreadable(self, place: str, what: str) -> None:
        self.malformed += 1
        if len(self.unread) < MAX_PLACES:
            self.unread.append(Unread(place, what))

    def note(self, text: str) -> None:
        """Something that a reader of the imported facts should know; told once."""
        if text not in self.notes:
            self.notes.append(text)

    def saw_step(self, step: int) -> None:
        self.rows += 1
        self.first_step = step if self.first_step is None else min(self.first_step, step)
        self.last_step = step if self.last_step is None else max(self.last_step, step)

    def as_dict(self) -> dict[str, Any]:
        return {
            "files": [{"name": d.name, "sha256": d.sha256, "size": d.size} for d in self.documents],
            "order": self.order,
            "rows": self.rows,
            "first_step": self.first_step,
            "last_step": self.last_step,
            "attempts": self.attempts,
            "duplicates": self.duplicates,
            "malformed": self.malformed,
            "unread": [{"place": u.place, "what": u.what} for u in self.unread],
            "left_out": dict(sorted(self.left_out.items())),
            "redactions": dict(sorted(self.redactions.items())),
            "notes": self.notes,
            "found": self.found,
        }
