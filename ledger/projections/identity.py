"""What a generation's rows depend on beside the rules: the modules of the fold, by their parsed definitions."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

from ledger.projections import disregards, environments, folding, live, timelines
from ledger.rules.digest import sources_digest

FOLD_MODULES: Final[tuple[ModuleType, ...]] = (disregards, environments, folding, live, timelines)


@cache
def fold_digest() -> str:
    """The identity of the fold: equal digests, rules and upcasters give equal rows."""
    files = [Path(module.__file__ or "") for module in FOLD_MODULES]
    return sources_digest({file.name: file.read_text("utf-8") for file in files})
