"""One run, with its sources as they were shown when it began, when its checkpoint was chosen, and at the size asked.

Each of these is shown under the rules that were in force at its own size, unless a rule set is named: then under that
one, so that two looks at one source differ by what was recorded and not by who looked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

from ledger.audit.coordinates import At, Clockwork, Moment
from ledger.audit.reading import Check, go_on
from ledger.audit.run_briefs import Briefs, ExportBrief
from ledger.audit.run_facts import Dossier, RunFacts
from ledger.audit.states import Shelf, State
from ledger.audit.turned import Turning
from ledger.rules.training_1.model import Life


@dataclass(frozen=True, slots=True)
class ThenAndNow:
    """A training source at the moments of a run; a state is None where the source was not listed."""

    atlas_id: str
    start_size: int
    at_start: State | None
    selection_size: int | None
    at_selection: State | None
    now: State | None
    turned: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WholeRun:
    """A run, what it trained on, and what came of it."""

    run: Dossier
    sources: tuple[ThenAndNow, ...]
    exports: tuple[Dossier, ...]
    campaign: Dossier | None


class OneRun:
    """Answers about one run."""

    def __init__(self, facts: RunFacts, briefs: Briefs, shelf: Shelf, clockwork: Clockwork, turning: Turning) -> None:
        self._facts = facts
        self._briefs = briefs
        self._shelf = shelf
        self._clockwork = clockwork
        self._turning = turning

    def as_of(self, run_id: str, moment: Moment, rules: str, check: Check = go_on) -> WholeRun:
        """The run at a moment.

        Args:
            run_id: The run.
            moment: Where the answer stands.
            rules: Those that were asked for; empty: at each size the ones in force there.
            check: Called between the parts of the answer.

        Raises:
            NotFound: nothing was recorded of it.
        """
        known = self._briefs.exports(moment.size)  # first: it may not have come so far, and then nothing is done twice
        life, dossier = self._facts.of_run(run_id, moment).run.life, self._facts.run(run_id, moment)
        selected = life.selections[-1].pos + 1 if life.selections else None
        sources = []
        for atlas_id, start in _starts(life):
            check()
            sources.append(self._source(atlas_id, start, selected, moment, rules))
        exports = self._exports((e for e in known if _is_of(e, run_id)), moment, check)
        campaign = dossier["summary"].get("campaign_id")
        told = None if campaign is None else self._facts.dossier(f"campaign/{campaign}", moment)
        return WholeRun(dossier, tuple(sources), tuple(exports), told)

    def _source(self, atlas_id: str, start: int, selected: int | None, moment: Moment, rules: str) -> ThenAndNow:
        return ThenAndNow(
            atlas_id=atlas_id,
            start_size=start,
            at_start=self.shown(atlas_id, start, rules, moment),
            selection_size=selected,
            at_selection=None if selected is None else self.shown(atlas_id, selected, rules, moment),
            now=_read(self._shelf.states(moment).one(atlas_id)),
            turned=self._turning.positions(moment, atlas_id, start),
        )

    def shown(self, atlas_id: str, size: int, rules: str, now: Moment) -> State | None:
        """A source as it was shown at a size not beyond the answer's; None if it was not listed."""
        then = self._clockwork.moment(At(size=size, rules=rules))
        if then.rules_digest == now.rules_digest and not now.policy_moved:
            # The same rules: what they showed then is known with what they show now, and need not be folded again.
            return _read(self._shelf.states(now).earlier(atlas_id, size))
        return _read(self._shelf.states(then).one(atlas_id))

    def _exports(self, known: Iterable[ExportBrief], moment: Moment, check: Check) -> Iterator[Dossier]:
        for export in known:
            check()
            dossier = self._facts.dossier(f"export/{export.id}", moment)
            if dossier is not None:
                yield dossier


def _is_of(export: ExportBrief, run_id: str) -> bool:
    return export.checkpoint is not None and export.checkpoint.run_id == run_id


def _starts(life: Life) -> list[tuple[str, int]]:
    """Each source that was last declared for training, in that order, and the size at which it was first named.

    Declared again, say with a revision that was missing, a source was consumed no later than it was before.
    """
    first: dict[str, int] = {}
    for declared in life.declared:
        for source in declared.said.sources:
            if source.atlas_id is not None and source.role == "train":
                first.setdefault(source.atlas_id, declared.pos + 1)
    last = life.declared[-1].said.sources if life.declared else ()
    named = dict.fromkeys(source.atlas_id for source in last if source.role == "train")
    return [(atlas_id, first[atlas_id]) for atlas_id in named if atlas_id is not None]


def _read(data: bytes | None) -> State | None:
    return None if data is None else orjson.loads(data)
