"""The rule set `ledger-1`: the corrected rules.

They keep the words of the Atlas page and mend what goes wrong there: a defect caps a rating and never replaces it,
unknown equals nothing, a revision is what was executed, an attestation is honoured for what it shows, and a protocol
is current because it was adopted. Frozen once released: any change of what these modules define changes the set's
digest, and needs a new id. Events are read from their bytes, so the set depends on no model that may change.

  decoding, reading, environment_reading      what is read of events
  fold, model, review_model, measurements     the facts that they add up to
  gathering, tallies, ratings                 what a review collection adds up to, and the rating that it supports
  reviews, quality                            which collection gives the rating, and how defects cap it
  revisions, attestations                     typed identities, comparisons, and what they show
  applicability, resolutions                  what holds for the present revisions
  listing, environment                        the catalogue row in effect, policy and aliases
  difficulty, protocols                       whether a report is current
  decide, resolution, policy                  what is refused, with every reason
  remembering                                 what need not be computed twice
"""

from __future__ import annotations

from typing import Final

from ledger.rules import RuleSet
from ledger.rules.ledger_1.environment import Environment
from ledger.rules.ledger_1.model import Facts
from ledger.rules.ledger_1.protocol_v2 import V2
from ledger.rules.ledger_1.rule_set import Ledger1

__all__ = ["RULES", "V2"]

RULES: Final[RuleSet[Facts, Environment]] = Ledger1()
