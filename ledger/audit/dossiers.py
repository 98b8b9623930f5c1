"""What became of a source's opinions: which collections were published or superseded, and how each subject was brought
together.

A dossier is one pass over the review events of one stream. Parts count from the event that publishes their collection;
parts that come after it count for nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

import msgspec

from ledger.audit.disregards import Disregards
from ledger.audit.reading import Check, Events, header_of
from ledger.projections.folding import Row

PUBLISHED: Final = "review.published"
SUPERSEDED: Final = "review.superseded"
SYNTHESIS: Final = "synthesis.recorded"
PARTS: Final = ("judgment.recorded", "observation.recorded", SYNTHESIS)
KEPT: Final = 512
"""Dossiers kept: some kilobytes each."""


class _Subject(msgspec.Struct, gc=False):
    id: str


class _Part(msgspec.Struct, gc=False):
    review_id: str
    subject: _Subject
    verdict: str
    supersedes_review_id: str | None


class _OfReview(msgspec.Struct, gc=False):
    """A publication, or a supersession."""

    review: str


_part = msgspec.json.Decoder(_Part).decode
_of_review = msgspec.json.Decoder(_OfReview).decode


def review_of(body: bytes) -> str:
    """The review that a publication publishes, or a supersession ends."""
    return _of_review(body).review


@dataclass(frozen=True, slots=True)
class Publication:
    """A published collection."""

    review: str
    pos: int


@dataclass(slots=True)
class Dossier:
    """One source's reviews at one size."""

    published: dict[str, Publication] = field(default_factory=dict)
    """By collection."""
    superseded: dict[str, int] = field(default_factory=dict)
    """By review: the position of the event that superseded it."""
    replaced: dict[str, int] = field(default_factory=dict)
    """By the id of an opinion: the position of the opinion in a published collection that supersedes it."""
    syntheses: dict[tuple[str, str], str] = field(default_factory=dict)
    """The verdict of the last synthesis, by collection and subject."""

    def publication_of(self, collection: str, pos: int) -> Publication | None:
        """The publication that closes the part at this position."""
        found = self.published.get(collection)
        return found if found is not None and pos < found.pos else None

    def superseded_at(self, collection: str, pos: int, review_id: str) -> int | None:
        """The position of what first superseded an opinion, by itself or with its collection."""
        publication = self.publication_of(collection, pos)
        with_collection = self.superseded.get(publication.review) if publication else None
        return min((p for p in (with_collection, self.replaced.get(review_id)) if p is not None), default=None)


class Dossiers:
    """Makes dossiers, and keeps the last ones. Safe to use from many threads."""

    def __init__(self, events: Events, disregards: Disregards) -> None:
        self._events = events
        self._disregards = disregards
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[str, int, int], Dossier] = OrderedDict()  # guarded by _guard

    def of(self, stream: str, size: int, redactions_through: int, check: Check) -> tuple[Dossier, int]:
        """The dossier of a source's stream at a size, and how many events were read for it now."""
        key = (stream, size, redactions_through)
        with self._guard:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found, 0
        found, read = self._made(stream, size, check)
        with self._guard:
            self._kept[key] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found, read

    def disregarded(self, size: int) -> dict[int, int]:
        """What counts for nothing at a size."""
        return self._disregards.at(size)

    def _made(self, stream: str, size: int, check: Check) -> tuple[Dossier, int]:
        dossier, disregarded, read = Dossier(), self._disregards.at(size), 0
        replacing: list[tuple[str, str, int]] = []
        for row in self._events.stream(stream, size, check):
            read += 1
            pos, _, type_, _, header, _ = row
            if pos in disregarded:
                continue
            if type_ == PUBLISHED:
                self._publish(dossier, row)
            elif type_ == SUPERSEDED:
                self._supersede(dossier, row)
            elif type_ in PARTS and (collection := header_of(header).collection) is not None:
                self._take(dossier, row, collection, replacing)
        for replaced, collection, pos in replacing:
            if dossier.publication_of(collection, pos) is not None:
                dossier.replaced.setdefault(replaced, pos)
        return dossier, read

    def _publish(self, dossier: Dossier, row: Row) -> None:
        collection, review = header_of(row[4]).collection, self._events.decoded(row, review_of)
        if collection is not None and review is not None:
            dossier.published.setdefault(collection, Publication(review, row[0]))

    def _supersede(self, dossier: Dossier, row: Row) -> None:
        review = self._events.decoded(row, review_of)
        if review is not None and any(p.review == review for p in dossier.published.values()):
            dossier.superseded.setdefault(review, row[0])

    def _take(self, dossier: Dossier, row: Row, collection: str, replacing: list[tuple[str, str, int]]) -> None:
        part = self._events.decoded(row, _part)
        if part is None or collection in dossier.published:
            return
        if row[2] == SYNTHESIS:
            dossier.syntheses[collection, part.subject.id] = part.verdict
        if part.supersedes_review_id not in {None, part.review_id}:
            assert part.supersedes_review_id is not None
            replacing.append((part.supersedes_review_id, collection, row[0]))
