"""What a generation's rows depend on beside the rules: the modules of the fold, by their parsed definitions."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

from ledger.events import Registry
from ledger.projections import disregards, environments, folding, live, subjects, timelines
from ledger.projections.records import Identity
from ledger.projections.subjects import RUNS
from ledger.rules.digest import sources_digest
from ledger.rules.sets import RUN_RULE_SETS, rules_digest

FOLD_MODULES: Final[tuple[ModuleType, ...]] = (disregards, environments, folding, live, subjects, timelines)


@cache
def fold_digest() -> str:
    """The identity of the fold: equal digests, rules and upcasters give equal rows."""
    files = [Path(module.__file__ or "") for module in FOLD_MODULES]
    return sources_digest({file.name: file.read_text("utf-8") for file in files})


def run_identities(registry: Registry) -> dict[str, Identity]:
    """What this release computes of runs, by rule set: the first of them answers."""
    fold, upcasters = fold_digest(), registry.upcaster_digest()
    return {rules: Identity(rules, rules_digest(rules), fold, upcasters, RUNS.name) for rules in RUN_RULE_SETS}
