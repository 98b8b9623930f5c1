"""Which generation answers: finding one, comparing it with the live one, and letting it take over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ledger.core.errors import NotFound, Refused
from ledger.projections.generations import (
    BUILDING,
    LIVE,
    GenerationRow,
    Generations,
    Identity,
    Moved,
)
from ledger.projections.impact import Impact, impact
from ledger.projections.subjects import RUNS, SOURCES

_INSTEAD_OF_DROPPING: Final[Mapping[str, str]] = {
    SOURCES.name: "Promote another first (`ledger projection promote`).",
    RUNS.name: "`ledger projection rebuild --rules {rules}` makes it anew, and puts the new one in its place.",
}


class Choice:
    """Answers and changes which generation answers; whoever changes something holds the projector's lock."""

    def __init__(self, generations: Generations) -> None:
        self._generations = generations

    def live(self) -> GenerationRow:
        row = self._generations.live()
        if row is None:
            raise NotFound("there is no live generation", remedy="Start the server once.")
        return row

    def find(self, ref: str) -> GenerationRow:
        """A generation by its id, or by its rules: built before unbuilt, then one that this release moves.

        Raises:
            NotFound: there is none.
        """
        rows = self._generations.all()
        found = [row for row in rows if row.id == ref] or [row for row in rows if row.identity.rules == ref]
        if not found:
            raise NotFound(
                f"there is no generation {ref!r}",
                remedy="`ledger projection list` names them; `ledger projection rebuild --rules ID` builds one.",
                details={"generation": ref},
            )
        return min(found, key=lambda row: (row.status == BUILDING, not self._generations.computes(row)))

    def built(self, ref: str) -> GenerationRow:
        """A generation that can answer.

        Raises:
            NotFound: there is none.
            Refused: it is being built.
        """
        row = self.find(ref)
        if row.status == BUILDING:
            raise Refused(
                f"the generation {row.id} is not built yet",
                reason="CONDITION_FAILED",
                remedy="Wait for its build, or go on with it: `ledger projection rebuild --rules ID`.",
                details={"generation": row.id},
            )
        return row

    def candidate(self, ref: str) -> GenerationRow:
        """A generation of the sources, which may come to answer in the place of the live one.

        Raises:
            NotFound: there is none.
            Refused: reason NOT_SUPPORTED; it is of another projection.
        """
        row = self.find(ref)
        if row.identity.projection != SOURCES.name:
            raise Refused(
                f"{row.identity.projection} have one rule set a release, {row.identity.rules!r}: nothing is compared "
                "or promoted there",
                reason="NOT_SUPPORTED",
                remedy=f"`ledger projection rebuild --rules {row.identity.rules}` folds them again, and compares.",
                details={"generation": row.id, "projection": row.identity.projection},
            )
        return row

    def impact(self, live: GenerationRow, candidate: GenerationRow) -> Impact:
        """What readers would notice, at the size that both have reached.

        Raises:
            Moved: one of them was replaced.
        """
        size = min(live.size, candidate.size)
        before, after = (dict(self._generations.states_at(row.id, size)) for row in (live, candidate))
        return impact(size, before, after)

    def settle(self, rules: str, identity: Identity | None) -> None:
        """Lets the generation answer that the last promotion named, if another does and it is there."""
        live = self._generations.live()
        if live is None or (live.identity.rules == rules and identity in (None, live.identity)):
            return
        rows = [g for g in self._generations.all() if g.status not in {LIVE, BUILDING}]
        wanted = [g for g in rows if g.identity.rules == rules and self._generations.computes(g)]
        named = [g for g in wanted if identity in (None, g.identity)]
        if named:
            self._generations.swap(live, named[0])

    def drop(self, ref: str) -> GenerationRow:
        """Deletes a generation's rows.

        Raises:
            NotFound: there is no such generation.
            Refused: it answers, or is being built.
        """
        row = self.find(ref)
        if row.status == LIVE:
            raise Refused(
                "the generation that answers cannot be dropped",
                reason="CONDITION_FAILED",
                remedy=_INSTEAD_OF_DROPPING[row.identity.projection].format(rules=row.identity.rules),
                details={"generation": row.id},
            )
        try:
            self._generations.drop(row)
        except Moved:
            raise Refused(
                f"the generation {row.id} is being built, or is not what it was a moment ago",
                reason="CONDITION_FAILED",
                remedy="Look again with `ledger projection list`.",
                details={"generation": row.id},
            ) from None
        return row


def diff_moved(found: Impact) -> Refused:
    """The refusal of a promotion that would move something else than its caller saw."""
    return Refused(
        f"the promotion would now move {len(found.moves)} sources, and not as was confirmed",
        reason="DIFF_MOVED",
        remedy="Look at the difference again (`ledger projection diff`), and promote with its digest.",
        details={"diff_digest": found.digest, "moved": str(len(found.moves)), "size": str(found.size)},
    )
