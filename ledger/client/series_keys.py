"""Under which keys a run's metrics are to be read: as it declares them, and SkyRL's where it names none."""

from __future__ import annotations

from ledger.rules.training_1.keys import SKYRL, Keys
from ledger.wire import runs_pb2


def keys_of(run: runs_pb2.Run) -> Keys:
    """The keys by the last declaration; the reward's is the one by which the rules judged the run."""
    named = run.declared.series
    return Keys(
        reward=run.reward.metric or named.reward or SKYRL.reward,
        entropy=named.entropy or SKYRL.entropy,
        grad_norm=named.grad_norm or SKYRL.grad_norm,
    )
