"""The rule set `training-1`: what is derived of runs, exports and campaigns, each from its own stream alone.

Facts are gathered as they were said, also where they contradict each other; what contradicts is flagged, with numbers
and events. Only decisions are refused: a selection of what was not committed or not eligible, a verification that does
not add up. Frozen once released: any change of what these modules define changes the set's digest, and needs a new id.
Events are read from their bytes, so the set depends on no model that may change.

  decoding, reading, export_reading           what is read of events
  straying, keys                              which of them count, and under which keys a series is read
  fold, stepping, working, counting, model    the facts that they add up to
  history, series                             checkpoints, and which steps lie behind which weights
  ema, thresholds                             trailing EMA, and when something is called an anomaly
  episodes, signs, anomalies                  what went wrong
  selection, recomputing, selecting           which checkpoint the rule gives, beside the one that was selected
  standing, progress, tail                    what a series comes to: read whole, or kept up step by step
  flags, attempt_flags, checkpoint_flags      what contradicts what
  completeness, coverage, objective, settings what is missing, what was counted, and what was optimised
  claims                                      what is said, beside what is known
  exports, campaigns                          the other streams
  summary, show, dossier                      what is shown, small and in full
  decide, verifying                           what is refused, with every reason
"""

from __future__ import annotations

from typing import Final

from ledger.rules.training_1.rule_set import Training1

__all__ = ["RULES", "Training1"]

RULES: Final = Training1()
