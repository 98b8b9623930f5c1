"""When something that happened to a run is called an anomaly: every threshold of these rules, in one place.

Each sign has two thresholds. What passes the far one for `HELD_FOR` steps is diagnosed; the near one dates it: the
onset is the first step from which the sign stayed past the near threshold until it was diagnosed. So a wobble
diagnoses nothing, and an onset is early enough to tell which checkpoint was saved before.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "training-1"

BASE_STEPS: Final = 5
"""The first steps, whose median is what is usual for the run. Step 1 alone can be an outlier; it is compared as well,
since step 1 is what is quoted."""

HELD_FOR: Final = 3
"""Logged steps in a row that diagnose, or that end what was diagnosed: one or two are noise of a batch."""

RUNAWAY_RATIO: Final = 5.0
"""Entropy over that of step 1 and over the base median. A policy that explores more than at first may double its
entropy; one that was lost reached 30 times. An exponential rise to 30 passes 5 a little before half of its way."""

RUNAWAY_ONSET_RATIO: Final = 2.0
"""Entropy has doubled: an exponential rise to 30 passes it after a fifth of its way."""

COLLAPSE_FRACTION: Final = 0.2
"""Of the entropy of step 1 and of the base median: sampling has lost most of its spread."""

COLLAPSE_FLOOR: Final = 0.15
"""Nats a token. Above it rollouts still differ, however far entropy has come down; trainers that damp the learning
rate on low entropy begin here."""

COLLAPSE_ONSET_FRACTION: Final = 0.5
"""Entropy has halved for good."""

REWARD_FRACTION: Final = 0.2
"""Of the highest trailing EMA so far: no plateau and no harder batch looks like this. The EMA is the height to fall
from, since a single lucky batch sets the highest reward for good. Three such rewards take the EMA itself below 44 % of
it."""

REWARD_ONSET_FRACTION: Final = 0.5
"""Half of that height is gone."""

REWARD_FLOOR: Final = 0.1
"""A run whose EMA was never higher has nothing to lose."""
