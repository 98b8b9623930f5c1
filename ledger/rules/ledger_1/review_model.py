"""The facts of reviews: parts that wait for their publication, and collections that are published."""

from __future__ import annotations

from typing import Final

from ledger.rules.ledger_1.values import Rating, Value


class Claim(Value, frozen=True):
    """An entry of `attributes.resolved_verifier_issues`: a review says that a fix was validated."""

    issue_url: str | None = None
    dataset_revision: str | None = None
    verifier_revision: str | None = None
    fix_validated: bool = False


class Part(Value, frozen=True):
    """One review of a collection: what the rules count of it."""

    pos: int
    id: str
    """Of the event."""
    method: str
    subject: str
    verdict: str
    by: str
    source: str | None = None
    """The source that it speaks of, where its subject is one; None for a task."""
    dataset_revision: str | None = None
    at: str | None = None
    impact: int = 0
    """Of its gravest issue: 2 high or critical, 1 medium, 0 less or none."""
    status: str | None = None
    """Of the native verification."""
    executed: bool = False
    """The verifier's tests were executed."""
    contract: str | None = None
    conversation: str | None = None
    prompt: str | None = None
    claims: tuple[Claim, ...] = ()
    sample: bool = False


class Tag(Value, frozen=True):
    """A tag as it was assigned."""

    pos: int
    id: str
    """Of the event."""
    assignment: str
    text: str
    """`namespace:value`"""
    supersedes: str | None = None
    sample: bool = False


class Pending(Value, frozen=True):
    """A review collection that is not published yet; both sequences as `growing` has them."""

    parts: tuple[tuple[Part, ...], ...] = ()
    tags: tuple[tuple[Tag, ...], ...] = ()


class SourceSubject(Value, frozen=True):
    """A subject of level `source` that some part of a review speaks of."""

    id: str
    source_id: str
    dataset_revision: str | None = None


class NativeRun(Value, frozen=True):
    """A runtime execution that executed the tests and was verified."""

    pos: int
    dataset_revision: str | None = None


MAX_CITED: Final = 64
"""Parts of a review that one reason names."""


class Counted(Value, frozen=True):
    """Parts of a review that have something in common: how many, and the positions of the first ones."""

    count: int = 0
    first: tuple[int, ...] = ()
    """At most MAX_CITED: enough to cite, however large the collection."""


class Panel(Value, frozen=True):
    """Who judged the tasks of a collection, and how far they agree."""

    tasks: int = 0
    fewest: int = 0
    most: int = 0
    """Model judgments of one task."""
    models: int = 0
    conversations: int = 0
    prompts: int = 0
    rejected: int = 0
    """Tasks that more than half of their own judges reject."""
    in_conflict: int = 0
    overruled: int = 0


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
    thin: Counted = Counted()
    """Native runs of tasks with fewer judges than a panel has."""
    judgments: int = 0
    judged_pos: int | None = None
    """Position of the latest judgment, model or human."""
    judged_at: str | None = None
    """When that was made, as it was written."""
    judged_at_us: int | None = None
    runs: tuple[NativeRun, ...] = ()
    """One a dataset revision."""
    contracts: tuple[str | None, ...] = ()
    """By which native runs were scored, each once; None where one does not say."""
    claims: tuple[Claim, ...] = ()
    panel: Panel = Panel()
    sample: bool = False


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
    dirty: bool = False
    """The tree that ran held changes that no commit has."""
    rests_on: tuple[str, ...] = ()
    tags: tuple[Tag, ...] = ()
    superseded: int | None = None
    """Position of the event that superseded it."""
    superseded_by: str | None = None
    sample: bool = False
