"""Promotions: a generation takes over, and the log says so first.

- What is promoted was adopted, as this server carries it, and is of the sources: the rules of runs are the release's.
- The event goes in only if nothing else was written to the stream `ledger` since the promotion was looked at: of two
  servers that promote at once, one looks again, and what the log has in force already is not written a second time.
- What answers already is not promoted again, so that repeating a promotion is safe.

A server that is killed between the event and the take-over finds, at its next start, that the log names another
generation than the live one, and lets that one answer (`Projector.settle`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from ledger.client.drafts import Actor, draft
from ledger.core.errors import InvalidInput, LedgerError, Refused, Unavailable
from ledger.events.administration import ProjectionPromoted
from ledger.log.conditions import StreamVersion
from ledger.log.log import Log
from ledger.log.model import Receipt
from ledger.projections.generations import BUILDING, LIVE, GenerationRow, Moved
from ledger.projections.impact import Impact
from ledger.projections.projector import Projector
from ledger.projections.promotions import PROMOTED
from ledger.projections.subjects import SOURCES
from services.server.standing import Standing, Standings

TRIES: Final = 20


@dataclass(frozen=True)
class Promoted:
    """What became of a promotion. Without a receipt the generation answered already."""

    generation: GenerationRow
    size: int
    """Of the log, with the promotion."""
    moved: int = 0
    receipt: Receipt | None = None


class Promoter:
    """Promotes generations of one log."""

    def __init__(self, log: Log, projector: Projector, standings: Standings) -> None:
        self._log = log
        self._projector = projector
        self._standings = standings

    def promote(self, ref: str, diff_digest: str, *, by: Actor, note: str | None = None) -> Promoted:
        """Lets a generation answer from here on.

        Args:
            ref: A generation's id, or a rule set's.
            diff_digest: Of the difference that was confirmed.
            by: Who promotes.
            note: Why, in their words.

        Raises:
            Refused: reason DIFF_MOVED, with what it would move now; NOT_ADOPTED; NOT_SUPPORTED, if it is of runs.
            NotFound: there is no such generation.
        """
        for _ in range(TRIES):
            version = self._log.store.stream_version("ledger")
            found, standing = self._projector.candidate(ref), self._standings.now()
            if answers_already(found, standing):
                return Promoted(found, standing.size)
            self._check_built(found)
            _check_adopted(found, standing)
            if is_recorded(found, standing):
                self.settle()  # another server wrote the promotion, and has yet to let the generation take over
                continue
            recording = _Recording(self._log, version, by, note)
            with suppress(Moved):
                self._take_over(found, diff_digest, recording)
            if recording.receipt is not None:
                self.settle()
                return Promoted(self._now(found), recording.size, recording.moved, recording.receipt)
        raise Unavailable("others keep writing to the stream 'ledger'", remedy="Promote again.")

    def _check_built(self, found: GenerationRow) -> None:
        """What is promoted follows the log: it is whole, and this release moves it."""
        if found.status != BUILDING and self._projector.generations.computes(found):
            return
        why = "is not built yet" if found.status == BUILDING else "was computed by another release"
        raise Refused(
            f"the generation {found.id} of the rules {found.identity.rules!r} {why}",
            reason="CONDITION_FAILED",
            remedy=f"Build it first: `ledger projection rebuild --rules {found.identity.rules}`.",
            details={"generation": found.id},
        )

    def _take_over(self, found: GenerationRow, diff_digest: str, recording: _Recording) -> None:
        """Promotes, unless somebody wrote in between, or a rebuild took the place of what was found."""
        try:
            if found.status != LIVE:
                self._projector.promote(found.id, diff_digest, recording)
                return
            # It answers, and the log does not say so: its rows were lost, and made again by another release.
            recording(*self._projector.impact(found.id))
        except LedgerError as error:
            if error.reason not in {"CONDITION_FAILED", "NOT_FOUND"}:
                raise

    def settle(self) -> None:
        """Lets that generation answer which the log's last word is about; nothing if it is not built."""
        for _ in range(TRIES):
            in_force = self._standings.now().in_force
            assert in_force is not None, "the first events put rules in force"
            with suppress(Moved):  # another server settles too
                self._projector.settle(in_force.identity.rules, in_force.identity)
                return

    def _now(self, found: GenerationRow) -> GenerationRow:
        """The generation as it is now; a rebuild may have put an equal one in its place."""
        generations = self._projector.generations
        return generations.get(found.id) or generations.same_as(found.identity) or found


class _Recording:
    """Writes the promotion, at the very moment at which nothing else can take over."""

    def __init__(self, log: Log, version: int, by: Actor, note: str | None) -> None:
        self._log = log
        self._condition = StreamVersion("ledger", version)
        self._by = by
        self._note = note
        self.size = 0
        self.moved = 0
        self.receipt: Receipt | None = None

    def __call__(self, _live: GenerationRow, candidate: GenerationRow, impact: Impact) -> None:
        said = promotion_payload(candidate, impact, self._note)
        outcome = self._log.append(
            [draft(PROMOTED, "ledger", said, by=self._by)], conditions=[self._condition]
        ).result()
        (receipt,) = outcome.receipts
        if isinstance(receipt, LedgerError):
            raise receipt
        self.receipt, self.size, self.moved = receipt, outcome.size, len(impact.moves)


def answers_already(row: GenerationRow, standing: Standing) -> bool:
    """Whether a generation is the one that the log says is in force."""
    return row.status == LIVE and standing.in_force is not None and standing.in_force.identity == row.identity


def is_recorded(row: GenerationRow, standing: Standing) -> bool:
    """Whether the log already has in force what a generation computes, though another one still answers."""
    return row.status != LIVE and standing.in_force is not None and standing.in_force.identity == row.identity


def promotion_payload(candidate: GenerationRow, impact: Impact, note: str | None) -> ProjectionPromoted:
    """What the log says of a promotion.

    Raises:
        InvalidInput: the note is longer than a text may be.
    """
    identity = candidate.identity
    try:
        return ProjectionPromoted(
            projection=SOURCES.name,
            rules=identity.rules,
            rules_digest=identity.rules_digest,
            fold_digest=identity.fold_digest,
            upcaster_digest=identity.upcaster_digest,
            size=impact.size,
            diff_digest=impact.digest,
            moved=len(impact.moves),
            generation=candidate.id,
            note=note,
        )
    except ValidationError as error:
        raise InvalidInput(f"note: {error.errors()[0]['msg']}", remedy="Give a shorter note.") from None


def _check_adopted(row: GenerationRow, standing: Standing) -> None:
    identity = row.identity
    if standing.is_adopted(identity.rules, identity.rules_digest):
        return
    raise Refused(
        f"the rules {identity.rules!r} were not adopted, so they cannot be put in force",
        reason="NOT_ADOPTED",
        remedy=f"Adopt them first: `ledger rules adopt {identity.rules}`; then promote again.",
        details={"rules": identity.rules, "digest": identity.rules_digest},
    )
