"""The facts of one stream: what its events say, gathered for `show`, `dossier` and `decide`.

Values are frozen; a change makes a new one that shares what stayed. Each can be written as MessagePack and read back to
an equal value. Tuples are in log order. Nothing here is a judgment: what contradicts what is derived of it.

A run has three parts, so that a step touches little: its life (declared, started, saved, selected, ended: few events),
its series (a point a step), its work (counts of rollouts, evaluations, weight transfers).
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from ledger.rules.training_1 import export_reading, reading
from ledger.rules.training_1.progress import Progress
from ledger.rules.training_1.series import Point
from ledger.rules.training_1.values import Value

Said = TypeVar("Said")


class Fact(Value, Generic[Said], frozen=True):
    """What one event says, and where; its bytes too where an answer repeats them."""

    pos: int
    said: Said
    body: bytes = b""


class Config(Value, frozen=True):
    """A configuration, as it was recorded; its settings as JSON."""

    pos: int
    attempt: int
    moment: str
    digest: str
    settings: bytes


class Life(Value, frozen=True):
    """What happened to a run, apart from its steps."""

    declared: tuple[Fact[reading.RunDeclared], ...] = ()
    starts: tuple[Fact[reading.AttemptStarted], ...] = ()
    ends: tuple[Fact[reading.AttemptEnded], ...] = ()
    run_ends: tuple[Fact[reading.RunEnded], ...] = ()
    configs: tuple[Config, ...] = ()
    drifts: tuple[Fact[reading.ConfigDrifted], ...] = ()
    begun: tuple[Fact[reading.CheckpointSaveStarted], ...] = ()
    commits: tuple[Fact[reading.CheckpointCommitted], ...] = ()
    loads: tuple[Fact[reading.CheckpointLoaded], ...] = ()
    late_loads: tuple[int, ...] = ()
    """Positions of those that came when their attempt had logged steps already, as they happened."""
    deletions: tuple[Fact[reading.CheckpointDeleted], ...] = ()
    selections: tuple[Fact[reading.CheckpointSelected], ...] = ()
    anomalies: tuple[Fact[reading.AnomalyClaimed], ...] = ()
    claims: tuple[Fact[reading.ClaimRecorded], ...] = ()
    traces: tuple[Fact[export_reading.TracesPublished], ...] = ()
    logs: tuple[Fact[export_reading.LogsPublished], ...] = ()


# The series


class Span(Value, frozen=True):
    """Of an attempt: from which step to which it logged."""

    first: int
    last: int
    """The highest."""
    steps: int
    """Different ones."""
    last_pos: int
    weight_version: int | None = None
    """The highest that was seen."""
    live_pos: int | None = None
    """Of the last step that was recorded as it happened: only of such ones does the order tell anything."""


class Odd(Value, frozen=True):
    """A contradiction of one kind inside one attempt: how often, the first one in words, and where."""

    code: str
    attempt: int
    message: str
    count: int
    positions: tuple[int, ...]


class Range(Value, frozen=True):
    """The least and the greatest of what was measured."""

    least: float
    greatest: float


class Tail(Value, frozen=True):
    """What the series comes to, and what `tail` needs to go on from there."""

    before: Progress
    """Without the last point."""
    last: Point
    now: Progress
    """With it."""


class Series(Value, frozen=True):
    """Every step that was logged."""

    points: tuple[tuple[Point, ...], ...] = ()
    """As `growing` has them."""
    spans: dict[int, Span] = msgspec.field(default_factory=dict)
    """By attempt."""
    odd: tuple[Odd, ...] = ()
    updates: Range | None = None
    """Of optimizer updates a batch."""
    clipped: Range | None = None
    """Of the fraction of tokens that were clipped."""
    kl: bool = False
    """Some divergence from a reference was measured."""
    tail: Tail | None = None
    """None where it has to be read from the points."""


# The work


class Counter(Value, frozen=True):
    """A sum, and in how many summaries it was counted."""

    total: int
    summaries: int


class Disposed(Value, frozen=True):
    """What became of groups, for one reason."""

    disposition: str
    reason: str | None
    groups: int
    samples: int | None


class Failed(Value, frozen=True):
    """Trials that ended by one exception and were treated in one way."""

    exception_type: str
    treatment: str | None
    count: int


class Evaluated(Value, frozen=True):
    """An evaluation, as its bytes."""

    pos: int
    attempt: int
    step: int
    body: bytes


class Synced(Value, frozen=True):
    """How often weights went to the engines, and where a probe found others there."""

    count: int = 0
    probed: int = 0
    failed: tuple[int, ...] = ()
    """Positions."""


class Work(Value, frozen=True):
    """What was counted of rollouts, evaluated, and sent to the engines."""

    counters: dict[str, Counter] = msgspec.field(default_factory=dict)
    """By name, of training rollouts."""
    errors: tuple[Failed, ...] = ()
    groups: tuple[Disposed, ...] = ()
    positions: tuple[tuple[int, ...], ...] = ()
    """Of what was counted, as `growing` has them."""
    of_steps: int = 0
    """Summaries that name a step."""
    of_no_step: int = 0
    of_evaluations: int = 0
    """Summaries of evaluation rollouts, which are not counted here."""
    evaluations: tuple[tuple[Evaluated, ...], ...] = ()
    """As `growing` has them."""
    synced: Synced = Synced()
    versions: dict[int, int] = msgspec.field(default_factory=dict)
    """By attempt, the highest weight version that was sent."""
    odd: tuple[Odd, ...] = ()


class Run(Value, frozen=True):
    life: Life = Life()
    series: Series = Series()
    work: Work = Work()
    strays: tuple[Odd, ...] = ()
    """Of events that name another stream."""


# Exports and campaigns


class Export(Value, frozen=True):
    started: tuple[Fact[export_reading.ExportStarted], ...] = ()
    completed: tuple[Fact[export_reading.ExportCompleted], ...] = ()
    verified: tuple[Fact[export_reading.ExportVerified], ...] = ()
    failed: tuple[Fact[export_reading.ExportFailed], ...] = ()
    models: tuple[Fact[export_reading.ModelPublished], ...] = ()
    hosting: tuple[Fact[None], ...] = ()
    claims: tuple[Fact[reading.ClaimRecorded], ...] = ()
    strays: tuple[Odd, ...] = ()


class Campaign(Value, frozen=True):
    declared: tuple[Fact[export_reading.CampaignDeclared], ...] = ()
    claims: tuple[Fact[reading.ClaimRecorded], ...] = ()
    strays: tuple[Odd, ...] = ()


# All of it


class Epoch(Value, frozen=True):
    """What was seen of one epoch of one producer."""

    producer: str
    epoch: int
    ranges: tuple[tuple[int, int], ...] = ()
    """Sequence numbers that were seen, merged: first and last, both included."""
    report: reading.RecordingReported | None = None


class Facts(Value, frozen=True):
    """All that the stream says so far."""

    first_pos: int | None = None
    """Of the first event that says something; none before it."""
    last_pos: int = 0
    """Of the last one. Samples of engines are evidence of completeness alone and do not move it."""
    sample: bool = False
    run: Run = Run()
    export: Export = Export()
    campaign: Campaign = Campaign()
    epochs: tuple[Epoch, ...] = ()
    uncounted: int = 0
    """Events with steps that bear no producer's number."""
