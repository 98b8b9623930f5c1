"""Opinions: judgments, syntheses and observations as they were recorded, what became of each, and which ones pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, get_args

import msgspec

from ledger.audit.dossiers import PARTS
from ledger.audit.wording import check_values, quoted
from ledger.core import clock
from ledger.core.errors import InvalidInput
from ledger.core.text import is_header_text
from ledger.events.fields import ActorKind
from ledger.events.reviews import Severity, Verdict
from ledger.log import limits

MAX_SOURCES: Final = 1_000
JUDGMENTS: Final = frozenset({"model_judgment", "human_judgment"})
SEVERITIES: Final[tuple[str, ...]] = get_args(Severity)
"""From the least to the worst."""
_TYPE_OF: Final = {
    "model_judgment": "judgment.recorded",
    "human_judgment": "judgment.recorded",
    "synthesis": "synthesis.recorded",
    "runtime_execution": "observation.recorded",
    "static_inspection": "observation.recorded",
    "unknown": "observation.recorded",
}
_KNOWN: Final[Mapping[str, frozenset[str]]] = {
    "methods": frozenset(_TYPE_OF),
    "reviewer_kinds": frozenset(get_args(ActorKind)),
    "verdicts": frozenset(get_args(Verdict)),
    "severities": frozenset({*SEVERITIES, "none"}),
    "applicabilities": frozenset({"current", "stale", "unknown"}),
}
"""The values of the fields that have few."""


@dataclass(frozen=True)
class JudgmentFilter:
    """Which opinions. Empty fields match everything; several values of one field are alternatives."""

    source_ids: frozenset[str] = frozenset()
    task_ids: frozenset[str] = frozenset()
    reviewers: frozenset[str] = frozenset()
    reviewer_kinds: frozenset[str] = frozenset()
    verdicts: frozenset[str] = frozenset()
    severities: frozenset[str] = frozenset()
    methods: frozenset[str] = frozenset()
    reviewed_from_us: int | None = None
    reviewed_before_us: int | None = None
    superseded: bool | None = None
    applicabilities: frozenset[str] = frozenset()
    include_unpublished: bool = False
    reviews: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        check_values(self, {name: sorted(known) for name, known in _KNOWN.items()})
        if unreal := sorted(s for s in self.source_ids if not is_header_text(s, limits.STREAM_BYTES)):
            raise InvalidInput(
                f"filter.source_ids: {quoted(unreal[0])!r} can be no source's id",
                remedy="Ids are short printable ASCII: give them as `ledger source list` shows them.",
            )

    @property
    def streams(self) -> tuple[str, ...]:
        if len(self.source_ids) > MAX_SOURCES:
            raise InvalidInput(
                f"the filter names {len(self.source_ids)} sources, at most {MAX_SOURCES}",
                reason="TOO_LARGE",
                remedy="Ask for some of them at a time, or for all.",
            )
        return tuple(sorted(f"source/{source}" for source in self.source_ids))

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(sorted({_TYPE_OF[m] for m in self.methods})) if self.methods else PARTS

    def takes_part(self, part: Part) -> bool:
        """Whether it passes by what it says itself."""
        return (
            _among(part.subject.task_id, self.task_ids)
            and _among(part.reviewer.id, self.reviewers)
            and _among(part.reviewer.kind, self.reviewer_kinds)
            and _among(part.verdict, self.verdicts)
            and _among(part.method, self.methods)
            and _among(part.severity or "none", self.severities)
            and self._takes_date(part.reviewed_at)
        )

    def _takes_date(self, reviewed_at: str | None) -> bool:
        if self.reviewed_from_us is None and self.reviewed_before_us is None:
            return True
        if reviewed_at is None:
            return False
        moment = clock.from_text(reviewed_at)
        return (self.reviewed_from_us is None or moment >= self.reviewed_from_us) and (
            self.reviewed_before_us is None or moment < self.reviewed_before_us
        )

    def takes_fate(self, judgment: Judgment) -> bool:
        """Whether it passes by what became of it."""
        return (
            (self.include_unpublished or judgment.review is not None)
            and _among(judgment.review, self.reviews)
            and (self.superseded is None or self.superseded == (judgment.superseded is not None))
            and _among(judgment.applicability, self.applicabilities)
        )


def _among(value: str | None, wanted: frozenset[str]) -> bool:
    return not wanted or value in wanted


class _Subject(msgspec.Struct, gc=False):
    id: str
    level: str
    dataset_revision: str | None
    task_id: str | None


class _Reviewer(msgspec.Struct, gc=False):
    id: str
    kind: str


class _Artifact(msgspec.Struct, gc=False):
    sha256: str


class _Evidence(msgspec.Struct, gc=False):
    artifact: _Artifact


class PartFinding(msgspec.Struct, gc=False):
    id: str
    kind: str
    dimension: str
    severity: str | None
    text: str
    evidence: list[_Evidence] = msgspec.field(default_factory=list)


class Part(msgspec.Struct, gc=False):
    """Of a review's part, what a question asks for."""

    review_id: str
    collection: str
    subject: _Subject
    reviewer: _Reviewer
    method: str
    verdict: str
    reviewed_at: str | None
    summary: str
    findings: list[PartFinding]

    @property
    def severity(self) -> str | None:
        """The worst severity of an issue."""
        found = [SEVERITIES.index(f.severity) for f in self.findings if f.kind == "issue" and f.severity]
        return SEVERITIES[max(found)] if found else None


part_of = msgspec.json.Decoder(Part).decode


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; the fields of `JudgmentFinding` in audit.proto."""

    id: str
    kind: str
    dimension: str
    severity: str | None
    text: str
    evidence_sha256: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judgment:
    """One opinion and what became of it; the fields of `Judgment` in audit.proto."""

    pos: int
    event_id: str
    source_id: str
    review_id: str
    collection: str
    review: str | None
    level: str
    task_id: str | None
    subject_id: str
    reviewer: str
    reviewer_kind: str
    method: str
    verdict: str
    severity: str | None
    reviewed_at: str | None
    recorded_at_us: int
    dataset_revision: str | None
    superseded: int | None
    applicability: str | None
    summary: str
    findings: tuple[Finding, ...]
    overruled: bool | None
    sample: bool
