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


class Authored(Value, frozen=True):
    """The rating that an inventory states in its row."""

    grade: Rating | None = None
    dataset_revision: str | None = None
    verifier_revision: str | None = None


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
    grading_revision: str | None = None
    """The inventory's own key, which it has once the source's grading code is tracked."""
    authored: Authored | None = None


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


class Claim(Value, frozen=True):
    """An entry of `attributes.resolved_verifier_issues`: a review says that a fix was validated."""

    pos: int
    issue_url: str | None = None
    dataset_revision: str | None = None
    verifier_revision: str | None = None
    names_verifier: bool = False
    """The entry has the key `verifier_revision`, with a revision or with null."""
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
    native_runs: Counted = Counted()
    """Of the runtime executions, those that executed the tests and were verified."""
    judgments: int = 0
    newest_date: str | None = None
    """The greatest `reviewed_at` of all its reviews, compared as text."""
    dated_pos: int | None = None
    """Of the review that has it."""
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
    executed_commit: str | None = None
    reference_commit: str | None = None
    superseded: int | None = None
    """Position of the event that superseded it."""
    sample: bool = False


class Standing(Value, frozen=True):
    """The source's row as the publisher and the defect triggers have left it, staleness aside."""

    review: str | None = None
    """The review collection that the row points at: the last one that the publisher wrote."""
    quality: Rating | None = None
    """The stored rating."""
    open: int = 0
    """Confirmed defects that are open."""
    forced_at: int | None = None
    """Position of the event at which a defect trigger last wrote the rating; none once a publication has its own."""
    opened_at: int | None = None
    """Position of the last confirmation or reopening."""
    closed_at: int | None = None
    """Position of the last resolution or withdrawal."""
    sample: bool = False


class Binding(Value, frozen=True):
    """A grading proof: that a review's execution graded as a grading manifest says."""

    review: str
    source_revision: str
    captured_verifier_revision: str
    grading_revision: str
    equivalent: bool
    """Every program that ran equals that of the manifest."""
    pos: int
    sample: bool = False


class Defect(Value, frozen=True):
    """A defect, as its last event left it."""

    id: str
    kind: str
    status: DefectStatus
    summary: str
    pos: int
    """Of the event that put it into this status."""
    issue_url: str | None = None
    created: int | None = None
    """Position of its first confirmation, which a reopening does not move; none while it was only suspected."""
    opened: int | None = None
    """Position of the last confirmation or reopening."""
    review: str | None = None
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
    atlas_id: str = ""
    review: str | None = None
    """The review collection that was current when it was recorded: it is stored under that one."""
    artifact: str | None = None
    """SHA-256 of difficulty.json."""
    context_window: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    verifier_configuration: dict[str, Any] = msgspec.field(default_factory=dict)
    estimated_at: str | None = None
    sample: bool = False


class FollowUp(Value, frozen=True):
    """A complete run with one thing changed."""

    id: str
    pos: int
    kind: str
    outcome: Measured
    review: str | None = None
    """The review collection that was current when it was recorded."""
    original_report: str | None = None
    changed_parameter: str | None = None
    checkpoint_change: str | None = None
    estimated_at: str | None = None
    sample: bool = False


class Facts(Value, frozen=True):
    """All that the source's stream says so far."""

    parts: tuple[RowPart, ...] = ()
    pending: dict[str, Pending] = msgspec.field(default_factory=dict)
    reviews: tuple[Review, ...] = ()
    standing: Standing = Standing()
    bindings: tuple[Binding, ...] = ()
    defects: dict[str, Defect] = msgspec.field(default_factory=dict)
    reports: tuple[Report, ...] = ()
    followups: tuple[FollowUp, ...] = ()
