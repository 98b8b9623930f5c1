"""The facts of one source: what its own stream says, gathered for `show` and `decide`.

Values are frozen; a change makes a new one that shares what stayed. Each can be written as JSON and read back to an
equal value. Tuples are in log order, and so are the keys of `Facts.defects`, which are ordered by first appearance.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

Rating = Literal["good", "some_issues", "bad"]
DefectStatus = Literal["suspected", "open", "resolved", "withdrawn"]


class Value(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Frozen, compared by content, written without what equals its default."""


class Row(Value, frozen=True):
    """What is shown or compared of a catalogue row."""

    origin: str
    sha256: str
    name: str | None = None
    family: str | None = None
    url: str | None = None
    dataset_id: str | None = None
    dataset_revision: str | None = None
    revision: str | None = None
    verifier_revision: str | None = None
    atlas_status: str | None = None
    intended_use: str | None = None
    is_benchmark: bool | None = None
    input_rows: int | None = None


class RowPart(Value, frozen=True):
    """A catalogue part of this source. Whether it counts is for the environment to say."""

    pos: int
    collection: str
    kind: Literal["declared", "revised", "retired", "reinstated"]
    row: Row | None = None
    sample: bool = False


class SourceSubject(Value, frozen=True):
    """A subject of level `source` that some part of a review speaks of."""

    id: str
    source_id: str
    dataset_revision: str | None = None


class NativeRun(Value, frozen=True):
    """A runtime execution that executed the tests and was verified."""

    pos: int
    dataset_revision: str | None = None


class Claim(Value, frozen=True):
    """An entry of `attributes.resolved_verifier_issues`: a review says that a fix was validated."""

    pos: int
    issue_url: str | None = None
    dataset_revision: str | None = None
    verifier_revision: str | None = None
    fix_validated: bool = False


MAX_CITED: Final = 64
"""Parts of a review that one reason names."""


class Counted(Value, frozen=True):
    """Parts of a review that have something in common: how many, and the positions of the first ones."""

    count: int = 0
    first: tuple[int, ...] = ()
    """At most MAX_CITED: enough to cite, however large the collection."""


class Tally(Value, frozen=True):
    """What the parts of a review collection add up to."""

    subjects: tuple[SourceSubject, ...] = ()
    syntheses: int = 0
    synthesis_pos: int | None = None
    synthesis_verdict: str | None = None
    judges: Counted = Counted()
    """Model judgments."""
    rejects: Counted = Counted()
    """Of those, the ones that reject."""
    supplemental_judges: Counted = Counted()
    issues: Counted = Counted()
    """Model judgments and source syntheses with an issue of medium severity or above."""
    severe: Counted = Counted()
    """Of those, the ones with an issue of high severity or above."""
    traces: Counted = Counted()
    """Runtime executions."""
    unverified: Counted = Counted()
    """Of those, the ones that were not verified."""
    judgments: int = 0
    judged_pos: int | None = None
    """Position of the latest judgment, model or human."""
    judged_at: str | None = None
    """When that was made, as it was written."""
    judged_at_us: int | None = None
    runs: tuple[NativeRun, ...] = ()
    claims: tuple[Claim, ...] = ()
    sample: bool = False


class Pending(Value, frozen=True):
    """A review collection that is not published yet."""

    ids: tuple[tuple[str, ...], ...] = ()
    tally: Tally = Tally()


class Review(Value, frozen=True):
    """A published review collection."""

    id: str
    """SHA-256 of its quality-reviews.json."""
    pos: int
    collection: str
    tally: Tally
    rating: Rating | None = None
    role: str | None = None
    dataset_revision: str | None = None
    verifier_revision: str | None = None
    verifier_revision_basis: str | None = None
    """Who says which verifier revision it covers: the execution, the catalogue or the publisher."""
    executed_commit: str | None = None
    reference_commit: str | None = None
    superseded: int | None = None
    """Position of the event that superseded it."""
    sample: bool = False


class Turn(Value, frozen=True):
    """A moment that may move the rating: a rating published, a confirmed defect opened or closed."""

    pos: int
    kind: Literal["rated", "opened", "closed"]
    rating: Rating | None = None
    review: str | None = None
    sample: bool = False


class Standing(Value, frozen=True):
    """Where the turns have brought the rating, staleness aside."""

    quality: Rating | None = None
    open: int = 0
    """Confirmed defects that are open."""
    barred: bool = False
    """A defect holds the rating down: one is open, or no rating has been published since the last was closed."""
    sample: bool = False


class Validation(Value, frozen=True):
    """What a fix was checked against."""

    id: str
    pos: int
    dataset_revision: str | None
    verifier_revision: str | None
    replayed: tuple[str, ...]
    """SHA-256 of the inputs that were run again and passed."""
    failed_replays: int
    adverse_controls: int
    """Controls that must not be rewarded: incorrect, empty, trivial or perturbed answers."""
    failed_controls: int
    evidence: int


class Defect(Value, frozen=True):
    """A defect, as its last event left it."""

    id: str
    kind: str
    status: DefectStatus
    summary: str
    pos: int
    """Of the event that put it into this status."""
    issue_url: str | None = None
    opened: int | None = None
    """Position of the last confirmation or reopening; none while it was only suspected."""
    native_inputs: tuple[str, ...] = ()
    review: str | None = None
    validations: tuple[Validation, ...] = ()
    sample: bool = False


class Measured(Value, frozen=True):
    """One model's counts, as the report has them."""

    size: str
    model: str
    solved: int
    verified: int
    unverified: int | None = None
    attempted: int | None = None
    generation_parameters: dict[str, Any] = msgspec.field(default_factory=dict)


class Report(Value, frozen=True):
    """A difficulty report."""

    pos: int
    protocol: str
    models: tuple[Measured, ...]
    context_window: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    source_revision: str | None = None
    verifier_revision: str | None = None
    estimated_at: str | None = None
    sample: bool = False


class Facts(Value, frozen=True):
    """All that the source's stream says so far."""

    parts: tuple[RowPart, ...] = ()
    pending: dict[str, Pending] = msgspec.field(default_factory=dict)
    reviews: tuple[Review, ...] = ()
    turns: tuple[Turn, ...] = ()
    standing: Standing = Standing()
    defects: dict[str, Defect] = msgspec.field(default_factory=dict)
    reports: tuple[Report, ...] = ()
