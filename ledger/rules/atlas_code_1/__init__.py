"""The rule set `atlas-code-1`: Quality and Difficulty as the Atlas applet's later code computes them, faults included.

It is there so that history under that code can be compared with what better rules make of the same events. Where code
and page contradict each other, the code is followed. Frozen once released: any change of what these modules define
changes the set's digest, and needs a new id.

  reading               what of each payload is read
  gathering, ratings    what a review collection adds up to, and the rating that the publisher computes
  standing, defects     the mutable row: publications and defect triggers write it
  columns               the row as it is displayed
  listing               the catalogue's row in effect, at any position, and whether the source is retired
  grading               grading bindings, and whether one covers the review
  quality, reviews      whether the review is stale, the Quality, and the review shown
  protocols, difficulty which protocols the code accepts, and whether a report is shown
  decide, resolution    what is refused, with every reason

What the applet does not know of has no effect on the row: supersession, suspicions, validations, adopted protocols.
"""

from __future__ import annotations

from typing import Final

from ledger.rules import RuleSet
from ledger.rules.atlas_code_1.environment import Environment
from ledger.rules.atlas_code_1.model import Facts
from ledger.rules.atlas_code_1.rule_set import AtlasCode1

__all__ = ["RULES"]

RULES: Final[RuleSet[Facts, Environment]] = AtlasCode1()
