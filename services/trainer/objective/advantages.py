"""What a sample is worth: its score against the other samples of its prompt.

For a sample of score s in a group of which k samples count, with mean m:

    rloo     A = k/(k-1) (s - m), which is s less the mean of the others; all samples count
    rloo_n   the same over those that are not excluded. An excluded sample has A = 0 and no say in the mean: the N is
             for neutral. Below a minimum of k the whole group has A = 0

- In a group whose scores are all equal every A is exactly 0, whatever rounding makes of the mean: what counts samples
  by "A is not 0" counts none of them.
- A group of one has nothing to compare with: A = 0.
- All is computed in float64 and in the order of the samples, so that every process gets the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal

import torch
from torch import Tensor

SMALLEST_GROUP: Final = 2
"""Of samples that count: with fewer there are no others."""


Outcome = Literal["all_excluded", "below_minimum", "tied", "trained"]
"""What becomes of a group: the first that fits. `tied`: all scores are equal, so that there is nothing to learn."""


@dataclass(frozen=True, kw_only=True)
class GroupCounts:
    """What became of a step's samples and groups."""

    samples: int
    samples_excluded: int
    groups: int
    groups_all_excluded: int
    groups_below_minimum: int
    groups_tied: int
    groups_trained: int

    def metrics(self, estimator: str) -> dict[str, float]:
        """By keys such as `rloo_n/groups_tied`."""
        return {f"{estimator}/{name}": float(count) for name, count in asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """Advantages [samples] of float64, and what became of the groups, by the number that names each."""

    values: Tensor
    outcomes: Mapping[int, Outcome]
    counts: GroupCounts


def rloo(scores: Tensor, groups: Tensor) -> Estimates:
    """Leave-one-out advantages; every score has to be a number."""
    return rloo_n(scores, groups, torch.zeros(len(scores), dtype=torch.bool), SMALLEST_GROUP)


def rloo_n(scores: Tensor, groups: Tensor, excluded: Tensor, min_group_size: int) -> Estimates:
    """Leave-one-out advantages over the samples that are not excluded; the score of an excluded one is not read."""
    counts_in = ~excluded.cpu()
    scores = torch.where(counts_in, scores.detach().cpu().double(), 0.0)
    names, index = torch.unique(groups.cpu(), return_inverse=True)
    size = _summed(counts_in.double(), index, len(names))
    mean = _summed(scores, index, len(names)) / size.clamp(min=1)
    differ = _differ(scores, counts_in, index, len(names))
    smallest = max(min_group_size, SMALLEST_GROUP)
    outcomes = [_outcome(k, smallest, d) for k, d in zip(size.tolist(), differ.tolist(), strict=True)]
    trained = torch.tensor([outcome == "trained" for outcome in outcomes], dtype=torch.bool)
    factor = torch.where(trained, size / (size - 1).clamp(min=1), 0.0)
    return Estimates(
        values=torch.where(counts_in, factor[index] * (scores - mean[index]), 0.0),
        outcomes={int(name): outcome for name, outcome in zip(names.tolist(), outcomes, strict=True)},
        counts=_counts(outcomes, len(scores), int((~counts_in).sum())),
    )


def _outcome(size: float, smallest: int, differ: bool) -> Outcome:  # noqa: FBT001  # one of three facts of a group
    if size == 0:
        return "all_excluded"
    if size < smallest:
        return "below_minimum"
    return "trained" if differ else "tied"


def _counts(outcomes: Sequence[Outcome], samples: int, excluded: int) -> GroupCounts:
    return GroupCounts(
        samples=samples,
        samples_excluded=excluded,
        groups=len(outcomes),
        groups_all_excluded=outcomes.count("all_excluded"),
        groups_below_minimum=outcomes.count("below_minimum"),
        groups_tied=outcomes.count("tied"),
        groups_trained=outcomes.count("trained"),
    )


def less_kl(rewards: Tensor, kl: Tensor, coefficient: float) -> Tensor:
    """Scores: the rewards [samples] less what each token's KL [samples, tokens] costs."""
    return rewards.double() - coefficient * kl.double().sum(dim=1)


def _summed(values: Tensor, index: Tensor, groups: int) -> Tensor:
    return torch.zeros(groups, dtype=torch.float64).index_add_(0, index, values)


def _differ(scores: Tensor, counts_in: Tensor, index: Tensor, groups: int) -> Tensor:
    """Whether the scores that count are not all one, for each group."""
    one = torch.zeros(groups, dtype=torch.float64)
    one[index[counts_in]] = scores[counts_in]  # any of them: whichever is written last
    return _summed((counts_in & scores.ne(one[index])).double(), index, groups) > 0
