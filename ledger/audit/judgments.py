"""Judgments, syntheses and observations as they were recorded, in log order, and what became of each.

A page reads no more than a budget of events: a filter that passes few may give a short or even an empty page, with a
token to go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import orjson

from ledger.audit import agreement
from ledger.audit.coordinates import Moment
from ledger.audit.dossiers import PUBLISHED, Dossier, Dossiers, review_of
from ledger.audit.opinions import (
    JUDGMENTS,
    MAX_SOURCES,
    Finding,
    Judgment,
    JudgmentFilter,
    Part,
    PartFinding,
    part_of,
)
from ledger.audit.pages import Room, encode_token
from ledger.audit.reading import Check, Events, go_on, header_of
from ledger.audit.states import NoStates, Shelf, State, States
from ledger.core.errors import InvalidInput
from ledger.log.model import StoredEvent
from ledger.projections.folding import plain
from ledger.rules import source_of

QUESTION: Final = "judgments"
BUDGET: Final = 50_000
"""Events that one page may read, those of its sources' dossiers included."""


@dataclass(frozen=True, slots=True)
class JudgmentPage:
    """Some of what passes, in log order, and how to ask for more."""

    judgments: tuple[Judgment, ...]
    next_token: str = ""


class Judgments:
    """Answers about opinions."""

    def __init__(self, events: Events, shelf: Shelf, dossiers: Dossiers, *, budget: int = BUDGET) -> None:
        self._events = events
        self._shelf = shelf
        self._dossiers = dossiers
        self._budget = budget

    def page(
        self, moment: Moment, which: JudgmentFilter, *, size: int = 0, from_pos: int = 0, check: Check = go_on
    ) -> JudgmentPage:
        """The opinions that pass, from a position on."""
        found: list[Judgment] = []
        room = Room(size)
        for event, judgment, spent in self._scan(moment, which, from_pos, check):
            if judgment is not None:
                if not room.takes(len(event.payload or b"")):
                    return JudgmentPage(tuple(found), encode_token(QUESTION, which, [moment], event.pos))
                found.append(judgment)
            if spent >= self._budget:
                return JudgmentPage(tuple(found), encode_token(QUESTION, which, [moment], event.pos + 1))
        return JudgmentPage(tuple(found))

    def agreement(self, moment: Moment, which: JudgmentFilter, *, check: Check = go_on) -> agreement.Report:
        """How far the judges agree whose judgments pass."""
        scan = self._scan(moment, which, 0, check, applicability=bool(which.applicabilities))
        taken = (j for _, j, _ in scan if j is not None and j.method in JUDGMENTS)
        return agreement.report(_opinion(j) for j in taken)

    def _scan(
        self, moment: Moment, which: JudgmentFilter, from_pos: int, check: Check, *, applicability: bool = True
    ) -> Iterator[tuple[StoredEvent, Judgment | None, int]]:
        """Each event, its opinion (None: it does not pass), and how many events were read so far."""
        states = self._shelf.states(moment) if applicability else NoStates()
        joined = _Join(states, self._dossiers, moment, check)
        streams = self._streams(which, moment.size, check)
        if streams is None:
            return
        scan = self._events.scan(moment.size, streams=streams, types=which.types, from_pos=from_pos, check=check)
        for read, event in enumerate(scan, 1):
            part, source = self._events.decoded(plain(event), part_of), source_of(event.stream)
            judgment = None
            if part is not None and source is not None and which.takes_part(part):
                judgment = joined.judgment(event, source, part)
            if judgment is not None and not which.takes_fate(judgment):
                judgment = None
            yield event, judgment, read + joined.read

    def _streams(self, which: JudgmentFilter, size: int, check: Check) -> tuple[str, ...] | None:
        """The streams that can hold what passes; empty: any, None: there are none."""
        if which.source_ids or not which.reviews:
            return which.streams
        published = self._events.scan(size, types=(PUBLISHED,), check=check)
        named = {e.stream for e in published if self._events.decoded(plain(e), review_of) in which.reviews}
        return (tuple(sorted(named)) if len(named) <= MAX_SOURCES else ()) if named else None


class _Join:
    """Adds to opinions what became of them, for the length of one scan."""

    def __init__(self, states: States, dossiers: Dossiers, moment: Moment, check: Check) -> None:
        self._states = states
        self._dossiers = dossiers
        self._moment = moment
        self._check = check
        self._applicability: dict[str, dict[str, str | None]] = {}
        self.read = 0
        """Events read for dossiers."""
        self._disregarded = dossiers.disregarded(moment.size)

    def judgment(self, event: StoredEvent, source: str, part: Part) -> Judgment | None:
        """None: the event counts for nothing."""
        if event.pos in self._disregarded:
            return None
        dossier = self._dossier(event.stream)
        publication = dossier.publication_of(part.collection, event.pos)
        review = publication.review if publication else None
        return Judgment(
            pos=event.pos,
            event_id=event.id,
            source_id=source,
            review_id=part.review_id,
            collection=part.collection,
            review=review,
            level=part.subject.level,
            task_id=part.subject.task_id,
            subject_id=part.subject.id,
            reviewer=part.reviewer.id,
            reviewer_kind=part.reviewer.kind,
            method=part.method,
            verdict=part.verdict,
            severity=part.severity,
            reviewed_at=part.reviewed_at,
            recorded_at_us=event.recorded_at_us,
            dataset_revision=part.subject.dataset_revision,
            superseded=dossier.superseded_at(part.collection, event.pos, part.review_id),
            applicability=self._applies(source).get(review) if review else None,
            summary=part.summary,
            findings=tuple(_finding(f) for f in part.findings),
            overruled=_overruled(dossier, part),
            sample=header_of(event.header).sample,
        )

    def _dossier(self, stream: str) -> Dossier:
        moment = self._moment
        dossier, read = self._dossiers.of(stream, moment.size, moment.redactions_through, self._check)
        self.read += read
        return dossier

    def _applies(self, source: str) -> dict[str, str | None]:
        """The applicability of each review of a source that its state speaks of."""
        if source not in self._applicability:
            found = self._states.one(source)
            self._applicability[source] = {} if found is None else applicability_by_review(orjson.loads(found))
        return self._applicability[source]


def applicability_by_review(state: State) -> dict[str, str | None]:
    """Rules that keep a pool say it of every review, others of the one that is shown."""
    pool = {review["id"]: review["applicability"] for review in state.get("review_pool") or ()}
    shown = {state["review"]["id"]: state["applicability"]} if state["review"] else {}
    return {**pool, **shown}


def for_agreement(which: JudgmentFilter) -> JudgmentFilter:
    """The filter of a question about agreement: models' standing judgments, unless it asks for others.

    Raises:
        InvalidInput: if it asks for methods that are no judgments.
    """
    methods = which.methods or frozenset({"model_judgment"})
    if not methods <= JUDGMENTS:
        raise InvalidInput(
            f"agreement is asked over {', '.join(sorted(methods - JUDGMENTS))}",
            remedy="Only judges agree: ask over model_judgment, human_judgment or both.",
        )
    superseded = False if which.superseded is None else which.superseded
    return replace(which, methods=methods, superseded=superseded)


def _opinion(judgment: Judgment) -> agreement.Opinion:
    task = (judgment.source_id, judgment.collection, judgment.subject_id) if judgment.level == "task" else None
    issues = frozenset(f.dimension for f in judgment.findings if f.kind == "issue")
    return agreement.Opinion(task, judgment.reviewer, judgment.verdict, issues, judgment.overruled)


def _overruled(dossier: Dossier, part: Part) -> bool | None:
    synthesis = dossier.syntheses.get((part.collection, part.subject.id))
    return None if part.method not in JUDGMENTS or synthesis is None else part.verdict != synthesis


def _finding(found: PartFinding) -> Finding:
    evidence = tuple(e.artifact.sha256 for e in found.evidence)
    return Finding(found.id, found.kind, found.dimension, found.severity, found.text, evidence)
