"""The steps of a run as they were logged: every metric of every attempt, whatever became of it.

Rows are read straight from the log, in its order. What a later attempt made again stays, and is marked; asked for one
checkpoint's lineage, only the steps behind its weights are given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from ledger.audit.coordinates import Moment
from ledger.audit.curves import RunSeries
from ledger.audit.reading import Check, Events, go_on
from ledger.audit.run_facts import RunFacts
from ledger.core.errors import InvalidInput, NotFound
from ledger.projections.folding import plain

LOGGED: Final = "steps.logged"
ROWS: Final = 1_000
NUMBERS: Final = 50_000
"""Of a page, at most about as many metrics: a number and its key take some dozens of bytes."""


@dataclass(frozen=True)
class Wanted:
    """Which steps of which run."""

    run: str
    keys: frozenset[str] = frozenset()
    """Metrics; none: all of them."""
    lineage_of_step: int | None = None
    lineage_of_attempt: int | None = None

    def __post_init__(self) -> None:
        if self.lineage_of_attempt is not None and self.lineage_of_step is None:
            raise InvalidInput(
                "lineage_of_attempt is given without lineage_of_step",
                remedy="Name the step of the checkpoint whose lineage is asked for.",
            )


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step of one attempt, as it was logged once."""

    attempt: int
    step: int
    weight_version: int | None
    logged_at: str | None
    metrics: dict[str, float]
    pos: int
    abandoned: bool
    ema: float | None
    """After this step, on the lineage that is asked for; else on the run's last one, where the step lies on it."""


class _Step(msgspec.Struct, gc=False):
    step: int
    metrics: dict[str, float | str]
    weight_version: int | None = None
    logged_at: str | None = None


class _Logged(msgspec.Struct, gc=False):
    run_id: str
    attempt: int
    steps: list[_Step]


_logged = msgspec.json.Decoder(_Logged).decode


class Steps:
    """Answers about what was logged."""

    def __init__(self, events: Events, facts: RunFacts) -> None:
        self._events = events
        self._facts = facts

    def series(self, moment: Moment, wanted: Wanted) -> RunSeries:
        """The series of the run.

        Raises:
            NotFound: nothing was recorded of it, or no attempt can have made the step whose lineage is asked for.
        """
        known = RunSeries(self._facts.of_run(wanted.run, moment))
        if wanted.lineage_of_step is not None and not known.behind(wanted.lineage_of_step, wanted.lineage_of_attempt):
            raise _never_made(wanted)
        return known

    def pages(self, moment: Moment, wanted: Wanted, known: RunSeries, check: Check = go_on) -> Iterator[list[StepRow]]:
        """The rows, so many at once as one message can hold; one empty page where there are none."""
        page: list[StepRow] = []
        numbers, given = 0, False
        for row in self._rows(moment, wanted, known, check):
            if page and (len(page) == ROWS or numbers + len(row.metrics) > NUMBERS):
                yield page
                page, numbers, given = [], 0, True
            page.append(row)
            numbers += len(row.metrics)
        if page or not given:
            yield page

    def _rows(self, moment: Moment, wanted: Wanted, known: RunSeries, check: Check) -> Iterator[StepRow]:
        averages = _averages(wanted, known)
        for pos, attempt, step in self._logged(wanted.run, moment, check):
            place = (attempt, step.step, pos)
            if wanted.lineage_of_step is not None and place not in averages:
                continue
            yield StepRow(
                attempt=attempt,
                step=step.step,
                weight_version=step.weight_version,
                logged_at=step.logged_at,
                metrics={k: float(v) for k, v in step.metrics.items() if not wanted.keys or k in wanted.keys},
                pos=pos,
                abandoned=(attempt, step.step) in known.abandoned,
                ema=averages.get(place),
            )

    def _logged(self, run: str, moment: Moment, check: Check) -> Iterator[tuple[int, int, _Step]]:
        disregarded = self._facts.disregarded(moment)
        # Page by page: between two of them nothing of the database is held, however slowly the rows are taken.
        for event in self._events.scan(moment.size, streams=(f"run/{run}",), types=(LOGGED,), check=check):
            said = None if event.pos in disregarded else self._events.decoded(plain(event), _logged)
            # What says that it is of another run counts for nothing here, as the rules have it.
            if said is not None and said.run_id == run:
                yield from ((event.pos, said.attempt, step) for step in said.steps)


def _averages(wanted: Wanted, known: RunSeries) -> dict[tuple[int, int, int], float | None]:
    """The EMA by attempt, step and position of the event that counts, of every step on the lineage."""
    parts = known.final
    if wanted.lineage_of_step is not None:
        parts = known.behind(wanted.lineage_of_step, wanted.lineage_of_attempt)
    return {(p.attempt, p.step, p.pos): average for p, average in known.on(parts)}


def _never_made(wanted: Wanted) -> NotFound:
    by = "any attempt" if wanted.lineage_of_attempt is None else f"attempt {wanted.lineage_of_attempt}"
    return NotFound(
        f"nothing shows that {by} of the run made step {wanted.lineage_of_step}",
        remedy="`ledger run show` lists its checkpoints and attempts.",
        details={"run": wanted.run, "step": str(wanted.lineage_of_step)},
    )
