"""How thoroughly Hypothesis looks: LEDGER_HYPOTHESIS=thorough for a long search."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A busy machine is no fault of a test: time is judged by the benchmarks.
settings.register_profile("default", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("LEDGER_HYPOTHESIS", "default"))
