"""How far judges agree, and how often each is overruled. Pure, and exact: the order of the judgments changes nothing.

Over the tasks with at least two judgments, where task i has n_i judgments, n_ij of them in category j:

    P_i   = (sum over j of n_ij^2 - n_i) / (n_i (n_i - 1))      the share of agreeing pairs of its judges
    P     = the mean of P_i over the tasks                      raw agreement
    p_j   = the share of category j among all these judgments
    P_e   = sum over j of p_j^2                                 what chance alone would give
    kappa = (P - P_e) / (1 - P_e)                               absent where P_e = 1

With panels of one size this is Fleiss' kappa. Tasks count alike, however many judges they have; in p_j a large panel
weighs more, as it does in the judgments that it stands for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from ledger.core.errors import InvalidInput

MAX_JUDGMENTS: Final = 1_000_000
"""Held at once: a question about more has to be narrowed."""
MAX_DIMENSIONS: Final = 200
"""Told of, the ones with most issues first: dimensions are free text."""
MAX_JUDGES: Final = 5_000
"""Told of, the busiest ones."""
ISSUE: Final = "issue"
NO_ISSUE: Final = "no issue"


@dataclass(frozen=True, slots=True)
class Opinion:
    """What agreement looks at of one judgment."""

    task: Hashable | None
    """Whose panel it belongs to; None: it speaks of no task."""
    reviewer: str
    verdict: str
    issues: frozenset[str] = frozenset()
    """The dimensions in which it found an issue."""
    overruled: bool | None = None
    """None: no synthesis speaks of the same subject."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the judges of a task agree on one thing."""

    of: str
    tasks: int
    judgments: int
    left_out: int
    """Tasks with one judgment."""
    raw: float | None
    kappa: float | None
    categories: Mapping[str, int]
    unanimous: int


@dataclass(frozen=True, slots=True)
class JudgeRecord:
    """How often a judge is overruled."""

    reviewer: str
    judgments: int
    synthesised: int
    overruled: int


@dataclass(frozen=True, slots=True)
class Report:
    """Agreement on the verdict and by dimension, and the judges' records by name."""

    verdicts: Agreement
    dimensions: tuple[Agreement, ...]
    judges: tuple[JudgeRecord, ...]


@dataclass(slots=True)
class _Panel:
    verdicts: Counter[str] = field(default_factory=Counter)
    issues: Counter[str] = field(default_factory=Counter)


def report(
    opinions: Iterable[Opinion],
    *,
    max_judgments: int = MAX_JUDGMENTS,
    max_dimensions: int = MAX_DIMENSIONS,
    max_judges: int = MAX_JUDGES,
) -> Report:
    """The agreement of the panels that these opinions make up.

    Raises:
        InvalidInput: reason TOO_LARGE, if there are more than `max_judgments`.
    """
    panels: dict[Hashable, _Panel] = {}
    judges: dict[str, list[int]] = {}
    for number, opinion in enumerate(opinions):
        if number == max_judgments:
            raise _too_many(max_judgments)
        _record(judges.setdefault(opinion.reviewer, [0, 0, 0]), opinion)
        if opinion.task is not None:
            panel = panels.setdefault(opinion.task, _Panel())
            panel.verdicts[opinion.verdict] += 1
            panel.issues.update(opinion.issues)
    found = list(panels.values())
    return Report(
        verdicts=agreement("verdict", [p.verdicts for p in found]),
        dimensions=tuple(_on_dimension(name, found) for name in _dimensions(found, max_dimensions)),
        judges=tuple(JudgeRecord(name, *judges[name]) for name in _busiest(judges, max_judges)),
    )


def agreement(of: str, panels: Iterable[Mapping[str, int]]) -> Agreement:
    """The agreement of panels, each given as judgments by category."""
    categories: Counter[str] = Counter()
    pairs: dict[int, int] = {}  # agreeing ordered pairs, by size of the panel
    sizes: Counter[int] = Counter()
    unanimous = left_out = 0
    for panel in panels:
        size = sum(panel.values())
        if size < 2:
            left_out += size
            continue
        sizes[size] += 1
        categories.update(panel)
        pairs[size] = pairs.get(size, 0) + sum(count * (count - 1) for count in panel.values())
        unanimous += max(panel.values()) == size
    tasks = sum(sizes.values())
    raw = sum((Fraction(found, size * (size - 1)) for size, found in pairs.items()), Fraction()) / max(tasks, 1)
    return Agreement(
        of=of,
        tasks=tasks,
        judgments=categories.total(),
        left_out=left_out,
        raw=float(raw) if tasks else None,
        kappa=_kappa(raw, categories) if tasks else None,
        categories=dict(sorted((name, count) for name, count in categories.items() if count)),
        unanimous=unanimous,
    )


def _kappa(raw: Fraction, categories: Counter[str]) -> float | None:
    chance = Fraction(sum(count * count for count in categories.values()), categories.total() ** 2)
    return None if chance == 1 else float((raw - chance) / (1 - chance))


def _dimensions(panels: Sequence[_Panel], limit: int) -> list[str]:
    found: Counter[str] = Counter()
    for panel in panels:
        found.update(panel.issues)
    most = sorted(found, key=lambda name: (-found[name], name))[:limit]
    return sorted(most)


def _busiest(judges: Mapping[str, Sequence[int]], limit: int) -> list[str]:
    return sorted(sorted(judges, key=lambda name: (-judges[name][0], name))[:limit])


def _on_dimension(name: str, panels: Sequence[_Panel]) -> Agreement:
    return agreement(
        name,
        ({ISSUE: p.issues[name], NO_ISSUE: p.verdicts.total() - p.issues[name]} for p in panels),
    )


def _record(counts: list[int], opinion: Opinion) -> None:
    counts[0] += 1
    counts[1] += opinion.overruled is not None
    counts[2] += opinion.overruled is True


def _too_many(limit: int) -> InvalidInput:
    return InvalidInput(
        f"the filter passes more than {limit} judgments",
        reason="TOO_LARGE",
        remedy="Narrow it: by source, by review or by date.",
        details={"limit": str(limit)},
    )
