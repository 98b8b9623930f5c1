"""How a rating stands while defects come and go: Good is demoted, Bad stays Bad, neither returns by itself.

Publications that give a rating and confirmed defects that open or close are turns. `after` takes one turn:

  - a defect opens: Bad stays Bad, everything else becomes Some issues;
  - a rating is published while a defect is open: it may lower to Bad, and lifts nothing;
  - the last open defect closes: nothing moves, the rating waits for a publication;
  - a rating is published while none is open: it is the rating.

A superseded collection no longer gives a rating: the turns are taken again without it. While a defect bars the rating,
that may lower it and never lifts it, as a publication would not.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Final

from msgspec.structs import replace

from ledger.rules.atlas_page_1.model import Facts, Rating, Standing, Turn

_ORDER: Final[tuple[Rating, ...]] = ("bad", "some_issues", "good")


def turned(facts: Facts, turn: Turn) -> Facts:
    """The facts after one more turn."""
    return replace(facts, turns=(*facts.turns, turn), standing=after(facts.standing, turn))


def after(standing: Standing, turn: Turn) -> Standing:
    if turn.kind == "closed":
        return replace(standing, open=standing.open - 1, sample=standing.sample or turn.sample)
    if turn.kind == "rated" and not standing.open:
        return Standing(quality=turn.rating, sample=turn.sample)
    held = worse(standing.quality, turn.rating)
    return Standing(
        quality="bad" if held == "bad" else "some_issues",
        open=standing.open + (turn.kind == "opened"),
        barred=True,
        sample=standing.sample or turn.sample,
    )


def without_superseded(facts: Facts, *, sample: bool) -> Facts:
    """The facts once the ratings of superseded collections are taken back."""
    superseded = {r.id for r in facts.reviews if r.superseded is not None}
    now, again = facts.standing, _replay(t for t in facts.turns if t.review not in superseded)
    sample = sample or again.sample
    if now.barred:
        again = replace(again, quality=worse(now.quality, again.quality))
        sample = sample or now.sample
    return replace(facts, standing=replace(again, sample=sample))


def worse(one: Rating | None, other: Rating | None) -> Rating | None:
    """The lower of two ratings; no rating says nothing."""
    known = [rating for rating in (one, other) if rating is not None]
    return min(known, key=_ORDER.index, default=None)


def _replay(turns: Iterable[Turn]) -> Standing:
    return reduce(after, turns, Standing())
