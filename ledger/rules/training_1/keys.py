"""Under which keys a trainer logs what every run is judged by: its reward, its entropy and its gradient norm.

Trainers name the same measure differently. A run declares its own keys; what it leaves out is SkyRL's. A step is read
by the declaration in force when it arrives, and stays as it was read.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ledger.rules.training_1 import reading
from ledger.rules.training_1.model import Life


class Keys(NamedTuple):
    reward: str = "reward/avg_raw_reward"
    entropy: str = "policy/policy_entropy"
    grad_norm: str = "policy/raw_grad_norm"

    @property
    def words(self) -> str:
        """How messages call them."""
        return f"reward {self.reward}, entropy {self.entropy}, gradient norm {self.grad_norm}"


SKYRL: Final = Keys()


def keys_of(declared: reading.RunDeclared) -> Keys:
    """As a declaration names them."""
    named = declared.series
    if named is None:
        return SKYRL
    return Keys(named.reward or SKYRL.reward, named.entropy or SKYRL.entropy, named.grad_norm or SKYRL.grad_norm)


def keys_in_force(life: Life, before: int | None = None) -> Keys:
    """By the last declaration, or the last one before a position."""
    for declared in reversed(life.declared):
        if before is None or declared.pos < before:
            return keys_of(declared.said)
    return SKYRL
