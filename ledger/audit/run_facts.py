"""What a run, an export or a campaign is known by at a moment, folded from its own stream when somebody asks.

A dossier is the rules' own: in the words of `Run`, `Export` and `Campaign` in runs.proto, ready to be shown.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection
from typing import Any, Final, Protocol

from ledger.audit.coordinates import Moment
from ledger.audit.disregards import Disregards
from ledger.audit.wording import quoted
from ledger.core.errors import InvalidInput, NotFound
from ledger.core.text import is_header_text
from ledger.log import limits
from ledger.log.log import Log
from ledger.projections.facts import stream_facts
from ledger.rules import RuleSet
from ledger.rules.training_1.model import Facts

Dossier = dict[str, Any]
KEPT: Final = 8
"""Facts kept: a long run's are some megabytes, and who shows it asks for its steps next."""
_KEPT_OR_NOT: Final = ("checkpoint.committed", "checkpoint.deleted")


class RunRules(RuleSet[Facts, Any], Protocol):
    """Rules of runs, which also tell all that they derive."""

    def dossier(self, key: str, facts: Facts) -> Dossier: ...


class RunFacts:
    """Folds streams on demand, and keeps the last ones. Safe to use from many threads."""

    def __init__(self, log: Log, rules: RunRules, disregards: Disregards) -> None:
        self.rules = rules
        self._log = log
        self._disregards = disregards
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[str, int, int], Facts] = OrderedDict()  # guarded by _guard

    def of_run(self, run: str, moment: Moment) -> Facts:
        """A run's facts.

        Raises:
            InvalidInput: the id is empty.
            NotFound: nothing was recorded of it there.
        """
        return self._there("run", run, moment)

    def checkpoints(self, run: str, moment: Moment) -> list[dict[str, Any]]:
        """Every checkpoint that was committed, by what became of it: its steps, which are many, are not read."""
        stream = f"run/{run}"
        facts, _ = stream_facts(
            self._log, self.rules, stream, moment.size, self.disregarded(moment), types=_KEPT_OR_NOT
        )
        return list(self.rules.dossier(stream, facts)["checkpoints"])

    def run(self, run: str, moment: Moment) -> Dossier:
        """A run's dossier; raises as `of_run`."""
        return self.rules.dossier(f"run/{run}", self.of_run(run, moment))

    def dossier(self, stream: str, moment: Moment) -> Dossier | None:
        """The dossier of a stream, if anything that counts was recorded in it."""
        facts = self.of(stream, moment)
        return None if facts.first_pos is None else self.rules.dossier(stream, facts)

    def campaign(self, campaign: str, moment: Moment, *, named: bool) -> Dossier:
        """A campaign's dossier; of one that runs name and nobody declared, its id alone.

        Raises:
            InvalidInput: the id is empty.
            NotFound: nothing was recorded of it there, and no run names it.
        """
        try:
            return self.rules.dossier(f"campaign/{campaign}", self._there("campaign", campaign, moment))
        except NotFound:
            if not named:
                raise
            return {"id": campaign}

    def disregarded(self, moment: Moment) -> Collection[int]:
        """What counts for nothing there."""
        return self._disregards.at(moment.size)

    def _there(self, kind: str, name: str, moment: Moment) -> Facts:
        if not name:
            raise InvalidInput(
                f"the id of the {kind} is empty", remedy=f"Give the id as `ledger {kind} list` shows it."
            )
        stream = f"{kind}/{name}"
        if is_header_text(stream, limits.STREAM_BYTES):
            facts = self.of(stream, moment)
            if facts.first_pos is not None:
                return facts
        raise unknown(kind, name, moment, self._log.head().size)

    def of(self, stream: str, moment: Moment) -> Facts:
        """The facts of a stream, those of nothing where nothing was recorded."""
        key = (stream, moment.size, moment.redactions_through)
        with self._guard:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        facts: Facts
        facts, _ = stream_facts(self._log, self.rules, stream, moment.size, self.disregarded(moment))
        with self._guard:
            self._kept[key] = facts
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return facts


def unknown(kind: str, name: str, moment: Moment, head: int) -> NotFound:
    """Nothing is known of the run, export or campaign at the moment."""
    later = " It may have been recorded later than this moment." if moment.size < head else ""
    return NotFound(
        f"there is no {kind} {quoted(name)!r} at size {moment.size}",
        remedy=f"Ids are case sensitive; `ledger run list` names every run and its campaign.{later}",
        details={"id": quoted(name), "size": str(moment.size)},
    )
