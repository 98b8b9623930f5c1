"""The rule sets that this release carries, and their identities."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from ledger.core.errors import NotFound
from ledger.rules import RuleSet, atlas_page_1
from ledger.rules.digest import definitions_digest

RULE_SETS: Final[Mapping[str, RuleSet[Any, Any]]] = MappingProxyType({atlas_page_1.RULES.id: atlas_page_1.RULES})

DEFAULT_RULES: Final = "atlas-page-1"
"""Adopted and promoted when a log is made."""

_PACKAGES: Final[Mapping[str, str]] = MappingProxyType({atlas_page_1.RULES.id: atlas_page_1.__name__})


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
