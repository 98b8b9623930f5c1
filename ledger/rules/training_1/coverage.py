"""How many rollouts came to what, summed over what was recorded, and what the sums do not cover."""

from __future__ import annotations

from typing import Any

from ledger.rules.training_1.export_reading import TracesPublished
from ledger.rules.training_1.growing import items
from ledger.rules.training_1.model import Fact, Life, Work
from ledger.rules.training_1.values import plural


def written(life: Life, work: Work) -> dict[str, Any]:
    """As `Coverage` in runs.proto; a count that nobody made is left out."""
    counts: dict[str, Any] = {name: counter.total for name, counter in work.counters.items()}
    published = _published(life)
    if published is not None:
        counts["published"] = published
    positions = [*items(work.positions), *(trace.pos for trace in _last_of_each(life) if _rows(trace) is not None)]
    return {
        **counts,
        "errors": [
            _without_none(exception_type=error.exception_type, treatment=error.treatment, count=error.count)
            for error in work.errors
        ],
        "groups": [
            _without_none(disposition=g.disposition, reason=g.reason, groups=g.groups, samples=g.samples)
            for g in work.groups
        ],
        "positions": sorted(positions),
        "limits": _limits(work),
    }


def _limits(work: Work) -> list[str]:
    summaries = work.of_steps + work.of_no_step
    limits = [
        f"{name}: counted in {counter.summaries} of {plural(summaries, 'summary', 'summaries')}"
        for name, counter in work.counters.items()
        if counter.summaries < summaries
    ]
    if work.of_steps and work.of_no_step:
        limits.append(
            f"{plural(work.of_steps, 'summary', 'summaries')} of one step and {work.of_no_step} of no named step are "
            "added up: they may count the same rollouts"
        )
    if work.of_evaluations:
        limits.append(f"left out: {plural(work.of_evaluations, 'summary', 'summaries')} of evaluation rollouts")
    if summaries:
        limits.append("rollouts of steps that a later attempt made again are counted too")
    return limits


def _published(life: Life) -> int | None:
    """Rows of the last revision of each repository: an earlier one is part of a later one."""
    rows = [count for count in map(_rows, _last_of_each(life)) if count is not None]
    return sum(rows) if rows else None


def _last_of_each(life: Life) -> tuple[Fact[TracesPublished], ...]:
    return tuple({trace.said.repository: trace for trace in life.traces}.values())


def _rows(trace: Fact[TracesPublished]) -> int | None:
    return trace.said.coverage.published if trace.said.coverage is not None else None


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
