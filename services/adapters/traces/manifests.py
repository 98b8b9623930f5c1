"""manifest.json of a trace dataset: what the rows are of, how far they cover it, and what was done to them.

It tells of no moment and no machine, so that the same places give the same bytes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from typing import Any, Final

from services.adapters.traces.accounts import Account
from services.adapters.traces.folders import FORMAT
from services.adapters.traces.reading import PlaceRead
from services.adapters.traces.rows import COLUMNS, MEANINGS, Row
from services.adapters.traces.shards import Shard

TOOL: Final = "atlas-ledger"
EPISODE_RULE: Final = (
    "One row a trial: its conversation up to the model's last answer and what followed it. Where a context was "
    "summarised, the last part only; `segment`, `segments` and `complete` say so. Steps that were copied from an "
    "earlier part open no episode. Conversations of subagents are in no row."
)
RENDERING: Final = (
    "Content is as it was recorded, but for what `redactions` and `replaced` count. In a step of an agent the "
    "reasoning stands before the message, between `<think>` and `</think>`; each call of a tool behind it, as JSON "
    "between `<tool_call>` and `</tool_call>`; and each result of a tool is a message of the role `tool`."
)
_FLAGS: Final = ("phase", "consumed", "masked", "trained", "abandoned", "finished", "complete")
_FLOATS: Final = ("reward", "advantage")


@dataclass
class RowCounts:
    """What the rows say, counted as they are written."""

    rows: int = 0
    by: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in _FLAGS})
    not_finite: Counter[str] = field(default_factory=Counter)
    runs: set[str | None] = field(default_factory=set)
    first_step: int | None = None
    last_step: int | None = None
    trained_on: int = 0
    """Rows that trained the weights that came of it: of training, trained, and not abandoned."""

    def counting(self, rows: Iterable[tuple[Row, int]]) -> Iterator[tuple[Row, int]]:
        for row, size in rows:
            self._count(row)
            yield row, size

    def _count(self, row: Row) -> None:
        self.rows += 1
        self.runs.add(row.run_id)
        for name, counts in self.by.items():
            counts[_word(getattr(row, name))] += 1
        for name in _FLOATS:
            value = getattr(row, name)
            self.not_finite[name] += value is not None and not isfinite(value)
        self.not_finite["logprobs"] += any(not isfinite(one) for turn in row.logprobs or [] for one in turn)
        if row.step is not None:
            self.first_step = row.step if self.first_step is None else min(self.first_step, row.step)
            self.last_step = row.step if self.last_step is None else max(self.last_step, row.step)
        self.trained_on += row.trained is True and row.phase == "train" and row.abandoned is False


def manifest(
    folder: Path, shards: Sequence[Shard], counts: RowCounts, account: Account, places: Sequence[PlaceRead]
) -> dict[str, Any]:
    """All of it, but what the command was told beside."""
    return {
        "format": FORMAT,
        "schema_version": 1,
        "tool": {"name": TOOL, "version": version(TOOL)},
        "runs": sorted(run for run in counts.runs if run is not None),
        "places": [place.as_dict() for place in places],
        "episodes": "last",
        "episode_rule": EPISODE_RULE,
        "rendering": RENDERING,
        "coverage": {**account.tally.counts, "published": counts.rows},
        "seen": account.tally.seen,
        "rows": counts.rows,
        "rows_that_trained": counts.trained_on,
        "first_step": counts.first_step,
        "last_step": counts.last_step,
        "rows_by": {name: dict(sorted(found.items())) for name, found in counts.by.items()},
        "not_finite": {name: count for name, count in sorted(counts.not_finite.items()) if count},
        "left_out": account.left_out.as_dict(),
        "odd": account.odd.as_dict(),
        "redactions": dict(sorted(account.redactions.items())),
        "replaced": {name: count for name, count in sorted(account.replaced.items()) if count},
        "columns": {name: MEANINGS[name] for name in COLUMNS},
        "shards": [_described(folder, shard) for shard in shards],
    }


def _described(folder: Path, shard: Shard) -> dict[str, Any]:
    path = folder / shard.path
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": shard.path, "rows": shard.rows, "size": path.stat().st_size, "sha256": sha256}


def _word(value: object) -> str:
    return "unknown" if value is None else str(value).lower()
