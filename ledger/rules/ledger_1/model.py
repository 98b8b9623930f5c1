"""The facts of one source: what its own stream says, gathered for `show` and `decide`.

Values are frozen; a change makes a new one that shares what stayed. Each can be written as JSON and read back to an
equal value. Tuples are in log order, and so are the keys of dicts, which are ordered by first appearance.

`Facts` has two halves. `pending` holds the parts of reviews that are not published, which may be many thousands and are
added one at a time; nothing of them is shown. `settled` is everything that is shown.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ledger.rules.ledger_1.review_model import Pending, Review, Tag
from ledger.rules.ledger_1.values import Rating, Value

DefectStatus = Literal["suspected", "open", "resolved", "withdrawn"]


# The catalogue


class RowCount(Value, frozen=True):
    basis: str
    rows: int
    revision: str | None = None
    evidence: str | None = None
    """SHA-256 of the artifact that shows it."""


class Authored(Value, frozen=True):
    """A rating that the inventory states, with no collection behind it."""

    rating: Rating
    reviewed_at: str | None = None
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
    component_selector: str | None = None
    atlas_status: str | None = None
    intended_use: str | None = None
    is_benchmark: bool | None = None
    input_rows: int | None = None
    counts: tuple[RowCount, ...] = ()
    authored: Authored | None = None


class RowPart(Value, frozen=True):
    """A catalogue part of this source. Whether it counts is for the environment to say."""

    pos: int
    collection: str
    kind: Literal["declared", "revised", "retired", "reinstated"]
    row: Row | None = None
    sample: bool = False


# Defects


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


class Resolution(Value, frozen=True):
    """By what, and by whom, a defect was resolved."""

    pos: int
    validation: str
    review: str
    principal: str | None = None


class Defect(Value, frozen=True):
    """A defect, as its last event left it."""

    id: str
    kind: str
    status: DefectStatus
    summary: str
    pos: int
    """Of the event that put it into this status."""
    issue_url: str | None = None
    confirmed: int | None = None
    """Position of the last confirmation; none while it was only suspected."""
    confirmed_by: str | None = None
    """The principal that recorded it."""
    opened: int | None = None
    """Position of the last confirmation or reopening."""
    native_inputs: tuple[str, ...] = ()
    review: str | None = None
    validations: tuple[Validation, ...] = ()
    resolution: Resolution | None = None
    sample: bool = False


# Difficulty


class Measured(Value, frozen=True):
    """One model's counts, as the report has them."""

    size: str
    model: str
    solved: int
    verified: int
    unverified: int | None = None
    attempted: int | None = None
    generation_parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    contract: str | None = None


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
    verifier_configuration: dict[str, Any] = msgspec.field(default_factory=dict)
    estimated_at: str | None = None
    ordering_warning: str | None = None
    rests_on: tuple[str, ...] = ()
    sample: bool = False


class FollowUp(Value, frozen=True):
    """A complete run with one thing changed."""

    pos: int
    id: str
    kind: str
    outcome: Measured
    changed_parameter: str | None = None
    checkpoint_change: str | None = None
    estimated_at: str | None = None
    original_report: str | None = None
    sample: bool = False


class Context(Value, frozen=True):
    """What was known before the measurement: the solver's initial counts, and earlier evidence."""

    pos: int
    solved: int | None = None
    verified: int | None = None
    unverified: int | None = None
    attempted: int | None = None
    reviewers: tuple[str, ...] = ()
    applicability: str | None = None
    limitations: tuple[str, ...] = ()
    artifact: str | None = None
    sample: bool = False


# Attestations


class Sides(Value, frozen=True):
    """What a comparison found: pairs that are equal, that differ, and that lack a side."""

    equal: int = 0
    different: int = 0
    missing: int = 0


class SelectionClaim(Value, frozen=True):
    """Which rows make up the source: what was found on both sides."""

    current_selector: str
    equal: bool
    """Selectors, row counts and known row hashes are equal."""
    hashed: bool
    """The row hashes of both sides are known."""


class Attestation(Value, frozen=True):
    """A recorded comparison: what it compares, and what was found."""

    id: str
    pos: int
    kind: str
    subject: str
    scope: str
    sides: Sides
    then: str | None = None
    """The revision that was executed or reviewed; none where it compares scripts."""
    now: str | None = None
    clean: bool = True
    """Nothing outside the compared pairs speaks against it: no dirty checkout, the manifest is the one named."""
    review: str | None = None
    """The collection that it speaks for, where it names one."""
    source_revision: str | None = None
    selection: SelectionClaim | None = None
    validated: bool = False
    unchecked: tuple[str, ...] = ()
    sample: bool = False


# All of it


class Settled(Value, frozen=True):
    """What is shown, or may be."""

    parts: tuple[RowPart, ...] = ()
    reviews: tuple[Review, ...] = ()
    tags: tuple[tuple[Tag, ...], ...] = ()
    """Assigned outside a collection; as `growing` has them."""
    retracted: tuple[tuple[tuple[int, str], ...], ...] = ()
    """Positions and ids of assignments that were taken back; as `growing` has them."""
    defects: dict[str, Defect] = msgspec.field(default_factory=dict)
    last_opened: int | None = None
    """Position of the last confirmation or reopening of any defect, whatever became of it."""
    last_closed: int | None = None
    """Position of the last resolution or withdrawal of a confirmed defect."""
    last_resolved: int | None = None
    reports: tuple[Report, ...] = ()
    followups: dict[str, FollowUp] = msgspec.field(default_factory=dict)
    context: Context | None = None
    attestations: dict[str, Attestation] = msgspec.field(default_factory=dict)
    """By event id, all that were recorded."""


class Facts(Value, frozen=True):
    """All that the source's stream says so far."""

    settled: Settled = Settled()
    pending: dict[str, Pending] = msgspec.field(default_factory=dict)
