"""The rule sets that this release carries, and their identities."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from ledger.core.errors import NotFound
from ledger.rules import RuleSet, atlas_code_1, atlas_page_1, ledger_1, training_1
from ledger.rules.digest import definitions_digest

_MODULES: Final = (atlas_page_1, atlas_code_1, ledger_1)
_RUN_MODULES: Final = (training_1,)

RULE_SETS: Final[Mapping[str, RuleSet[Any, Any]]] = MappingProxyType({m.RULES.id: m.RULES for m in _MODULES})
"""Those of sources."""

RUN_RULE_SETS: Final[Mapping[str, RuleSet[Any, Any]]] = MappingProxyType({m.RULES.id: m.RULES for m in _RUN_MODULES})
"""Those of runs, exports and campaigns: facts of one stream, and an environment that never changes."""

ALL_RULE_SETS: Final[Mapping[str, RuleSet[Any, Any]]] = MappingProxyType({**RULE_SETS, **RUN_RULE_SETS})

DEFAULT_RULES: Final = "ledger-1"
"""Adopted and promoted when a log is made, unless another set is named for it."""

DEFAULT_RUN_RULES: Final = "training-1"
"""Folds runs in every log: nothing is adopted or promoted there."""

_PACKAGES: Final[Mapping[str, str]] = MappingProxyType({m.RULES.id: m.__name__ for m in (*_MODULES, *_RUN_MODULES)})


@cache
def rules_digest(rules: str) -> str:
    """The identity of a set: the digest of its definitions.

    Raises:
        NotFound: if this release does not carry the set.
    """
    if rules not in _PACKAGES:
        raise NotFound(
            f"this release carries no rule set {rules!r}",
            remedy=f"It carries {', '.join(_PACKAGES)}; a set that was ever adopted stays in later releases.",
            details={"rules": rules},
        )
    return definitions_digest(_PACKAGES[rules])
