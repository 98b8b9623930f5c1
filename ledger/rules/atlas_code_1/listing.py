"""How a source stands in the catalogue: the row in effect, and where it took effect.

A part takes effect at the position of the `catalogue.synced` that closes its refresh. A source is listed once a closed
`source.declared` exists. The last part that has a row gives the row. Whether the source is retired is for the last of
its declarations, retirements and reinstatements to say: a revision changes the row alone.

The same can be asked of an earlier position: the publisher copied what the catalogue said when it ran.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from ledger.rules.atlas_code_1.environment import Closing, Environment
from ledger.rules.atlas_code_1.model import Facts, Row, RowPart
from ledger.rules.atlas_code_1.reasons import Reason, reason

Place = Literal["listed", "retired", "reinstated"]


class Revisions(NamedTuple):
    """What pins the data and the verifier; None is unknown."""

    dataset: str | None
    verifier: str | None


class Listing(NamedTuple):
    """A source's place in the catalogue."""

    row: Row
    place: Place
    placed: tuple[int, int]
    """The part that put it into this place, and where that was closed."""
    sample: bool
    events: tuple[int, ...]
    """The parts that it rests on, and where they were closed."""

    @property
    def retired(self) -> bool:
        return self.place == "retired"

    @property
    def revisions(self) -> Revisions:
        return Revisions(self.row.dataset_revision or self.row.revision, self.row.verifier_revision)


def listing(facts: Facts, environment: Environment, before: int | None = None) -> Listing | None:
    """The source's place in the catalogue, now or before a position; None while no closed refresh declares it."""
    effective = _effective(facts, environment, before)
    if not any(part.kind == "declared" for part, _ in effective):
        return None
    placing = [(part, end) for part, end in effective if part.kind != "revised"]
    last, closed = placing[-1]
    row, with_row = next((part.row, (part, end)) for part, end in reversed(effective) if part.row is not None)
    rests_on = ((last, closed), with_row)
    return Listing(
        row=row,
        place=_place([part for part, _ in placing]),
        placed=(last.pos, closed.pos),
        sample=any(part.sample or closing.sample for part, closing in rests_on),
        events=tuple(sorted({pos for part, closing in rests_on for pos in (part.pos, closing.pos)})),
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


def _place(placing: list[RowPart]) -> Place:
    if placing[-1].kind == "retired":
        return "retired"
    return "reinstated" if any(part.kind == "retired" for part in placing) else "listed"


def _effective(facts: Facts, environment: Environment, before: int | None) -> list[tuple[RowPart, Closing]]:
    """The closed parts, in the order in which they took effect."""
    closed = [
        (part, closing)
        for part in facts.parts
        if (closing := environment.closings.get(part.collection)) is not None
        and part.pos < closing.pos
        and (before is None or closing.pos < before)
    ]
    return sorted(closed, key=lambda pair: (pair[1].pos, pair[0].pos))
