"""Mini-batches for tests: drawn by Hypothesis as plain rows, turned into tensors, and cut into micro-batches."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from services.trainer.objective.batches import MicroBatch, MiniBatch
from services.trainer.objective.metrics import no_sums
from services.trainer.objective.objective import Objective
from services.trainer.settings import Algorithm
from tests.trainer.objective.reference import Row

VOCABULARY = 5
REDUCTIONS = ("token_mean", "sequence_mean", "seq_mean_token_sum_norm", "seq_mean_token_sum_norm_global")


def algorithm(**settings: Any) -> Algorithm:
    """Settings with lengths that fit the rows."""
    return Algorithm.model_validate({"max_input_length": 3, "max_generate_length": 4} | settings)


settings_of = st.builds(
    lambda base, kl, entropy, tis: algorithm(**base, **kl, **entropy, **tis),
    st.fixed_dictionaries(
        {
            "loss_reduction": st.sampled_from(REDUCTIONS),
            "temperature": st.sampled_from([0.5, 1.0, 1.7]),
            "eps_clip_low": st.sampled_from([0.0, 0.2]),
            "eps_clip_high": st.sampled_from([0.05, 0.3]),
        }
    ),
    st.just({})
    | st.fixed_dictionaries(
        {
            "use_kl_loss": st.just(True),
            "kl_loss_coef": st.just(0.3),
            "kl_estimator_type": st.sampled_from(["k1", "k2", "k3", "abs"]),
        }
    ),
    st.sampled_from([{}, {"use_entropy_loss": True, "entropy_loss_coef": 0.4}]),
    st.sampled_from([{}, {"use_tis": True, "tis_imp_ratio_cap": 1.2}, {"use_tis": True, "tis_imp_ratio_cap": 0.9}]),
)


def row(rng: random.Random, tokens: int, inside: int, *, advantage: float | None = None, known: bool = True) -> Row:
    """A sequence whose first `inside` tokens are in the loss; what stands behind them is garbage."""

    def around(values: Sequence[float]) -> list[float]:
        return [v + rng.gauss(0, 0.5) for v in values]

    base = [rng.uniform(-3, -0.3) for _ in range(inside)]
    garbage = [rng.choice([float("nan"), float("inf"), 1e30]) for _ in range(tokens - inside)]
    return Row(
        logits=[[rng.gauss(0, 1) for _ in range(VOCABULARY)] for _ in range(tokens)],
        tokens=[rng.randrange(VOCABULARY) for _ in range(tokens)],
        mask=[1] * inside + [0] * (tokens - inside),
        advantage=rng.choice([-1.5, -0.5, 0.0, 0.5, 2.0]) if advantage is None else advantage,
        old=around(base) + garbage,
        rollout=around(base) + garbage if known else None,
        reference=around(base) + garbage,
    )


@st.composite
def rows_of(draw: st.DrawFn, least: int = 1) -> list[Row]:
    """Sequences of one mini-batch, some without a token in the loss, some without the engine's log-probabilities."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    lengths = draw(st.lists(st.integers(0, 4), min_size=least, max_size=7).filter(any))
    return [row(rng, 4, length, known=rng.random() < 0.7) for length in lengths]


def numbers(rows: Sequence[Row]) -> MiniBatch:
    return MiniBatch.of(torch.tensor([r.mask for r in rows]), torch.tensor([r.advantage for r in rows]))


def micro_batch(rows: Sequence[Row]) -> MicroBatch:
    """Their tensors in float64."""
    known = [r.rollout is not None for r in rows]
    return MicroBatch(
        tokens=torch.tensor([r.tokens for r in rows]),
        mask=torch.tensor([r.mask for r in rows]),
        advantages=_double([r.advantage for r in rows]),
        old_logprobs=_double([r.old for r in rows]),
        rollout_logprobs=_double([r.rollout or [float("nan")] * len(r.mask) for r in rows]) if any(known) else None,
        rollout_known=torch.tensor(known),
        reference_logprobs=_double([r.reference for r in rows]),
    )


def logits_of(rows: Sequence[Row]) -> Tensor:
    return _double([r.logits for r in rows])


class Filler(Row):
    """A row that only fills up a process's share: in no loss and in no count."""


def filler(like: Row) -> Filler:
    return Filler(**vars(like) | {"mask": [0] * len(like.mask)})


def trained(settings: Algorithm, processes: Sequence[Sequence[Sequence[Row]]], shift: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of a parameter and the sums, as data-parallel processes make them: each goes backward from its
    micro-batches, and the gradients are averaged.

    The parameter, [VOCABULARY], is added to all logits; what a micro-batch is given as its mini-batch is counted over
    all of the rows but the fillers.
    """
    whole = sum((_counted(micro) for process in processes for micro in process), torch.zeros(3, dtype=torch.int64))
    objective = Objective(settings, world_size=len(processes))
    gradients, sums = [], no_sums()
    for process in processes:
        parameter = shift.clone().requires_grad_()
        for micro in process:
            loss = objective.loss(micro_batch(micro), MiniBatch.from_counts(whole), logits=logits_of(micro) + parameter)
            loss.total.backward()
            sums += loss.sums
        gradients.append(torch.zeros_like(shift) if parameter.grad is None else parameter.grad)
    return torch.stack(gradients).mean(dim=0), sums


def _counted(rows: Sequence[Row]) -> Tensor:
    real = [r for r in rows if not isinstance(r, Filler)]
    return numbers(real).counts() if real else torch.zeros(3, dtype=torch.int64)


def _double(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)
