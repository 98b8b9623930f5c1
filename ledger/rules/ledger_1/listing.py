"""How a source stands in the catalogue: the row in effect, and where it took effect.

A part takes effect at the position of the `catalogue.synced` that closes its refresh. A source is listed once a closed
`source.declared` exists. The last part that has a row gives the row. Whether the source is retired is for the last of
its declarations, retirements and reinstatements to say: a revision changes the row alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ledger.rules.ledger_1.environment import Closing, Environment
from ledger.rules.ledger_1.model import Row, RowPart, Settled
from ledger.rules.ledger_1.reasons import Reason, reason
from ledger.rules.ledger_1.revisions import Revisions

Place = Literal["listed", "retired", "reinstated"]


class Listing(NamedTuple):
    """A source's place in the catalogue."""

    row: Row
    place: Place
    placed: tuple[int, int]
    """The part that put it into this place, and where that was closed."""
    stated: tuple[int, int]
    """The part that gives the row, and where that was closed."""
    sample: bool
    events: tuple[int, ...]
    """The parts that it rests on, and where they were closed."""

    revisions: Revisions
    """The present ones."""

    @property
    def retired(self) -> bool:
        return self.place == "retired"


def listing(settled: Settled, environment: Environment) -> Listing | None:
    """The source's place in the catalogue; None while no closed refresh declares it."""
    in_effect = effective(settled, environment)
    placing = [(part, closing) for part, closing in in_effect if part.kind != "revised"]
    places = [part.kind for part, _ in placing]
    if "declared" not in places:
        return None
    last, closed = placing[-1]
    row, giving, given = next((part.row, part, closing) for part, closing in reversed(in_effect) if part.row)
    return Listing(
        row=row,
        place=_place(places),
        placed=(last.pos, closed.pos),
        stated=(giving.pos, given.pos),
        sample=last.sample or closed.sample or giving.sample or given.sample,
        events=tuple(sorted({last.pos, closed.pos, giving.pos, given.pos})),
        revisions=Revisions(row.dataset_revision or row.revision, row.verifier_revision),
    )


def catalogue_reasons(listing: Listing) -> list[Reason]:
    """Why the source is retired, or listed again."""
    if listing.place == "retired":
        text = "Retired: the catalogue no longer lists the source. Its reviews, defects and reports stay."
        return [reason("catalogue", "catalogue.retired", text, listing.placed)]
    if listing.place == "reinstated":
        text = "Reinstated: the catalogue lists the source again, after it was retired."
        return [reason("catalogue", "catalogue.reinstated", text, listing.placed)]
    return []


def _place(places: Sequence[str]) -> Place:
    if places[-1] == "retired":
        return "retired"
    return "reinstated" if "retired" in places else "listed"


def effective(settled: Settled, environment: Environment) -> list[tuple[RowPart, Closing]]:
    """The closed parts, in the order in which they took effect."""
    closed = [
        (part, closing)
        for part in settled.parts
        if (closing := environment.closings.get(part.collection)) is not None and part.pos < closing.pos
    ]
    return closed if len(closed) < 2 else sorted(closed, key=lambda pair: (pair[1].pos, pair[0].pos))
