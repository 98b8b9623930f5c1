"""The rule set `atlas-page-1`: Quality and Difficulty in the words of the Atlas page.

Where the page is silent, the rating of a collection is that of its publisher, and a defect bars what it must. Frozen
once released: any change of what these modules define changes the set's digest, and needs a new id.

  gathering, ratings    what a review collection adds up to, and the rating that it supports
  standing, defects     how a rating stands while defects open and close
  listing               the catalogue row in effect, and whether the source is retired
  quality, difficulty   what is displayed, and why
  decide, resolution    what is refused, with every reason
"""

from __future__ import annotations

from typing import Final

from ledger.rules import RuleSet
from ledger.rules.atlas_page_1.environment import Environment
from ledger.rules.atlas_page_1.model import Facts
from ledger.rules.atlas_page_1.protocols import V2
from ledger.rules.atlas_page_1.rule_set import AtlasPage1

__all__ = ["RULES", "V2"]

RULES: Final[RuleSet[Facts, Environment]] = AtlasPage1()
