"""What a line of a training log, or several, can say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from services.adapters.backfill.metrics import Metrics

RowKind = Literal["train", "eval"]


@dataclass(frozen=True)
class Row:
    """Metrics of a step, of training or of an evaluation."""

    line: int
    kind: RowKind
    step: int
    metrics: Metrics
    left_out: tuple[str, ...] = ()
    clock: str | None = None
    """The log's own time of the line, as written."""
    printed: bool = False
    """From a block that was printed for people, with four decimals."""


@dataclass(frozen=True)
class EngineLine:
    """What one rollout engine says of itself."""

    line: int
    engine: str
    clock: tuple[int, int, int, int, int]
    """Month, day, hour, minute, second: the log has no year."""
    metrics: Metrics


@dataclass(frozen=True)
class GroupsLine:
    """What an advantage estimator left out of one batch."""

    line: int
    excluded: int
    samples: int
    all_excluded: int
    too_small: int
    minimum: int
    tied: int | None = None
    groups: int | None = None
    tied_samples: int | None = None


@dataclass(frozen=True)
class ResumeLine:
    """The program says that it went on from a checkpoint."""

    line: int
    step: int


@dataclass(frozen=True)
class ConfigBlock:
    """The whole configuration, as it was printed at a start."""

    line: int
    settings: dict[str, Any]


@dataclass(frozen=True)
class Malformed:
    """It looks like one of these and is none."""

    line: int
    what: str


Item = Row | EngineLine | GroupsLine | ResumeLine | ConfigBlock | Malformed
