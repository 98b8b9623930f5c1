"""The objective in plain Python: loops over numbers, written from the formulas, to compare the tensors with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from services.trainer.settings import Algorithm


def advantages(
    scores: Sequence[Fraction], groups: Sequence[int], excluded: Sequence[bool], minimum: int
) -> tuple[list[Fraction], dict[int, str]]:
    """Leave-one-out by its words: a score less the mean of the others that count; and what became of each group."""
    values = [Fraction(0)] * len(scores)
    outcomes = {}
    for group in set(groups):
        members = [i for i, g in enumerate(groups) if g == group and not excluded[i]]
        if not members:
            outcomes[group] = "all_excluded"
        elif len(members) < max(minimum, 2):
            outcomes[group] = "below_minimum"
        elif len({scores[i] for i in members}) == 1:
            outcomes[group] = "tied"
        else:
            outcomes[group] = "trained"
            for i in members:
                others = [scores[j] for j in members if j != i]
                values[i] = scores[i] - sum(others) / len(others)
    return values, outcomes


@dataclass
class Row:
    """One sequence: a number or a list of logits for each of its tokens, padding included."""

    logits: list[list[float]]
    tokens: list[int]
    mask: list[int]
    advantage: float
    old: list[float]
    rollout: list[float] | None = None
    reference: list[float] | None = None


def clamp(value: float, low: float, high: float) -> float:
    return max(low, min(value, high))


def softmax(logits: Sequence[float], temperature: float) -> list[float]:
    top = max(logits)
    powers = [math.exp((x - top) / temperature) for x in logits]
    return [p / math.fsum(powers) for p in powers]


def entropy(probabilities: Sequence[float]) -> float:
    return -math.fsum(p * math.log(p) for p in probabilities if p > 0)


def divergence(new: float, reference: float, kind: str) -> float:
    d = new - reference
    if kind == "k1":
        return d
    if kind == "abs":
        return abs(d)
    if kind == "k2":
        return d * d / 2
    e = clamp(-d, -20, 20)
    return clamp(math.exp(e) - e - 1, -10, 10)


def token_losses(row: Row, new: Sequence[float], settings: Algorithm) -> list[tuple[float, bool]]:
    """A loss for each token, and whether the clipped term binds."""
    out = []
    for t in range(len(row.tokens)):
        ratio = math.exp(clamp(new[t] - row.old[t], -20, 20))
        free = ratio * row.advantage
        held = clamp(ratio, 1 - settings.eps_clip_low, 1 + settings.eps_clip_high) * row.advantage
        loss = -min(free, held)
        if settings.use_tis and row.rollout is not None:
            weight = math.exp(clamp(row.old[t] - row.rollout[t], -20, 20))
            loss *= min(weight, settings.tis_imp_ratio_cap or math.inf)
        out.append((loss, held < free))
    return out


def reduced(losses: Sequence[Sequence[float]], rows: Sequence[Row], kind: str, length: int) -> float:
    """Over a whole mini-batch, by the four formulas."""
    pairs = [[(x, m) for x, m in zip(loss, row.mask, strict=True) if m] for loss, row in zip(losses, rows, strict=True)]
    sums = [math.fsum(x for x, _ in pair) for pair in pairs]
    tokens = [len(pair) for pair in pairs]
    if kind == "token_mean":
        return math.fsum(sums) / max(sum(tokens), 1)
    if kind == "sequence_mean":
        return math.fsum(s / n if n else 0.0 for s, n in zip(sums, tokens, strict=True)) / len(rows)
    if kind == "seq_mean_token_sum_norm":
        return math.fsum(s / length for s in sums) / len(rows)
    active = sum(1 for row, n in zip(rows, tokens, strict=True) if n and row.advantage != 0)
    return math.fsum(sums) / (max(active, 1) * length)


def mini_batch(rows: Sequence[Row], settings: Algorithm) -> dict[str, Any]:
    """The metrics of one optimizer step over all of its sequences."""
    probabilities = [[softmax(logits, settings.temperature) for logits in row.logits] for row in rows]
    new = [
        [math.log(p[i]) for p, i in zip(ps, row.tokens, strict=True)]
        for ps, row in zip(probabilities, rows, strict=True)
    ]
    losses = [token_losses(row, logprobs, settings) for row, logprobs in zip(rows, new, strict=True)]
    inside = [(r, t) for r, row in enumerate(rows) for t, m in enumerate(row.mask) if m]
    count = max(len(inside), 1)
    found: dict[str, Any] = {
        "policy/policy_loss": reduced(
            [[x for x, _ in loss] for loss in losses], rows, settings.loss_reduction, settings.max_seq_len
        ),
        "policy/policy_entropy": math.fsum(entropy(probabilities[r][t]) for r, t in inside) / count,
        "policy/ppo_clip_ratio": sum(losses[r][t][1] for r, t in inside) / count,
        "policy/log_ratio_abs_mean": math.fsum(abs(new[r][t] - rows[r].old[t]) for r, t in inside) / count,
    }
    final = found["policy/policy_loss"]
    if settings.use_kl_loss:
        kl = [
            [divergence(n, f, settings.kl_estimator_type) for n, f in zip(logprobs, row.reference or [], strict=True)]
            for logprobs, row in zip(new, rows, strict=True)
        ]
        found["policy/policy_kl"] = reduced(kl, rows, "sequence_mean", 0)
        final += (settings.kl_loss_coef or 0) * found["policy/policy_kl"]
    if settings.use_entropy_loss:
        final -= (settings.entropy_loss_coef or 0) * found["policy/policy_entropy"]
    found["policy/final_loss"] = final
    if settings.use_tis:
        found |= corrections(rows, settings)
    return found


def corrections(rows: Sequence[Row], settings: Algorithm) -> dict[str, float]:
    inside = [(row, t) for row in rows for t, m in enumerate(row.mask) if m]
    pairs = [(row.old[t], row.rollout[t]) for row, t in inside if row.rollout is not None]
    spoken = [row for row in rows if any(row.mask)]
    found = {
        "tis/batch_skipped_no_logprobs": float(not pairs),
        "tis/skipped_fraction": float(not pairs),
        "policy/tis/applied_token_fraction": len(pairs) / len(inside),
        "policy/tis/applied_sequence_fraction": sum(row.rollout is not None for row in spoken) / len(spoken),
    }
    if pairs:
        ratios = [math.exp(clamp(old - rollout, -20, 20)) for old, rollout in pairs]
        found["policy/tis/imp_ratio_mean"] = math.fsum(ratios) / len(pairs)
        found["policy/tis/imp_ratio_capped_fraction"] = sum(
            r > (settings.tis_imp_ratio_cap or 0) for r in ratios
        ) / len(pairs)
        found["policy/tis/log_ratio_abs_mean"] = math.fsum(abs(old - rollout) for old, rollout in pairs) / len(pairs)
    return found
