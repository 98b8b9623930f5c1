"""Losses of tokens: against plain numbers, and their gradients against finite differences."""

from __future__ import annotations

import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.objective.losses import Divergence, clipped, divergences, ratios, read_logits
from tests.trainer.objective import reference

KINDS: tuple[Divergence, ...] = ("k1", "k2", "k3", "abs")


def random_logits(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class TestReadingLogits:
    @given(st.integers(0, 2**32), st.sampled_from([0.3, 1.0, 2.5]))
    def test_log_probabilities_and_entropies_are_those_of_the_softmax(self, seed: int, temperature: float) -> None:
        logits = random_logits(seed, 2, 3, 5) * 4
        tokens = torch.randint(5, (2, 3), generator=torch.Generator().manual_seed(seed))
        logprobs, entropies = read_logits(logits, tokens, temperature)
        for i in range(2):
            for t in range(3):
                p = reference.softmax(logits[i, t].tolist(), temperature)
                assert float(logprobs[i, t]) == pytest.approx(math.log(p[int(tokens[i, t])]), abs=1e-10)
                assert float(entropies[i, t]) == pytest.approx(reference.entropy(p), abs=1e-10)

    @pytest.mark.parametrize("chunk", [1, 7, 13, 26, 27, 10**6])
    def test_the_size_of_the_parts_changes_neither_values_nor_gradients(self, chunk: int) -> None:
        logits = random_logits(0, 3, 4, 6).requires_grad_()
        tokens = torch.arange(12).view(3, 4) % 6
        whole = read_logits(logits, tokens, 0.7, entropy_gradient=True)
        parts = read_logits(logits, tokens, 0.7, entropy_gradient=True, chunk=chunk)
        weights = random_logits(1, 2, 3, 4)
        gradients = [
            torch.autograd.grad(sum((k * w).sum() for k, w in zip(both, weights, strict=True)), logits)[0]
            for both in (whole, parts)
        ]
        assert [p.tolist() for p in parts] == [w.tolist() for w in whole]
        assert gradients[1].tolist() == gradients[0].tolist()

    @pytest.mark.parametrize("entropy_gradient", [False, True])
    def test_gradients_are_those_of_finite_differences(self, entropy_gradient: bool) -> None:
        tokens = torch.tensor([[0, 3], [2, 2]])
        kept = slice(None if entropy_gradient else 1)
        torch.autograd.gradcheck(
            lambda x: read_logits(x, tokens, 0.7, entropy_gradient=entropy_gradient, chunk=9)[kept],
            random_logits(2, 2, 2, 4).requires_grad_(),
        )

    def test_an_entropy_has_a_gradient_only_where_one_is_asked_for(self) -> None:
        logits, tokens = random_logits(3, 1, 2, 4).requires_grad_(), torch.tensor([[0, 1]])
        assert not read_logits(logits, tokens, 1.0)[1].requires_grad
        assert read_logits(logits, tokens, 1.0, entropy_gradient=True)[1].requires_grad
        with torch.no_grad():
            assert not read_logits(logits, tokens, 1.0, entropy_gradient=True)[1].requires_grad

    @pytest.mark.parametrize("low", [-math.inf, -1e5])
    def test_a_token_that_cannot_be_drawn_adds_nothing_to_entropy_or_gradient(self, low: float) -> None:
        logits = torch.tensor([[[0.0, 0.0, low]]], requires_grad=True)
        logprobs, entropies = read_logits(logits, torch.tensor([[0]]), 1.0, entropy_gradient=True)
        (logprobs + entropies).sum().backward()
        assert entropies.tolist() == [[pytest.approx(math.log(2))]]
        assert logits.grad is not None
        assert logits.grad.flatten().tolist() == pytest.approx([0.5, -0.5, 0.0], abs=1e-6)

    def test_logits_of_low_precision_are_read_in_float32(self) -> None:
        logits, tokens = random_logits(4, 1, 3, 50).bfloat16(), torch.tensor([[1, 2, 3]])
        read = read_logits(logits, tokens, 0.7)
        assert [kind.dtype for kind in read] == [torch.float32] * 2
        exact = read_logits(logits.double(), tokens, 0.7)
        assert read[0].tolist()[0] == pytest.approx(exact[0].tolist()[0], abs=1e-5)

    @pytest.mark.parametrize("entropy_gradient", [False, True])
    def test_no_copy_of_the_logits_is_kept_for_the_way_back(self, entropy_gradient: bool) -> None:
        logits = torch.zeros(2, 8, 1000, requires_grad=True)
        ours, kept = logits.untyped_storage().data_ptr(), []

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.untyped_storage().data_ptr() != ours:
                kept.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            read_logits(
                logits[:, :-1], torch.zeros(2, 7, dtype=torch.int64), 1.0, entropy_gradient=entropy_gradient, chunk=3000
            )
        assert sum(kept) < 1000


class TestRatios:
    def test_an_exponent_is_clamped_both_ways(self) -> None:
        new = torch.tensor([-1.0, -1.0, -300.0, 0.0], dtype=torch.float64)
        old = torch.tensor([-1.0, -2.0, 0.0, -300.0], dtype=torch.float64)
        assert ratios(new, old).tolist() == pytest.approx([1.0, math.e, math.exp(-20), math.exp(20)])

    @pytest.mark.parametrize(
        ("ratio", "advantage", "loss", "bound"),
        [
            (1.0, 1.0, -1.0, False),
            (1.1, 1.0, -1.05, True),
            (1.1, -1.0, 1.1, False),
            (0.7, 1.0, -0.7, False),
            (0.7, -1.0, 0.8, True),
            (0.7, 0.0, 0.0, False),
            (1.04, 2.0, -2.08, False),
            (0.85, -2.0, 1.7, False),
        ],
    )
    def test_the_clipped_term_binds_where_it_is_the_smaller(
        self, ratio: float, advantage: float, loss: float, bound: bool
    ) -> None:
        found = clipped(*torch.tensor([[ratio], [advantage]], dtype=torch.float64), 0.2, 0.05)
        assert (float(found[0]), bool(found[1])) == (pytest.approx(loss), bound)

    def test_the_gradient_ends_where_the_clipped_term_binds(self) -> None:
        ratio = torch.tensor([1.1, 1.1, 0.7, 0.7, 1.0], requires_grad=True)
        advantages = torch.tensor([1.0, -1.0, 1.0, -1.0, 3.0])
        clipped(ratio, advantages, 0.2, 0.05)[0].sum().backward()
        assert ratio.grad is not None
        assert ratio.grad.tolist() == pytest.approx([0.0, 1.0, -1.0, 0.0, -3.0])

    def test_gradients_are_those_of_finite_differences(self) -> None:
        rng = random.Random(5)
        old, advantages = torch.tensor(
            [[rng.gauss(-1, 0.5) for _ in range(40)], [rng.gauss(0, 1) for _ in range(40)]], dtype=torch.float64
        )
        new = (old + torch.tensor([rng.gauss(0, 0.5) for _ in range(40)], dtype=torch.float64)).requires_grad_()
        torch.autograd.gradcheck(lambda x: clipped(ratios(x, old), advantages, 0.2, 0.05)[0], new)


class TestDivergences:
    @pytest.mark.parametrize("kind", KINDS)
    @given(st.floats(-40, 0), st.floats(-40, 0))
    def test_each_estimate_is_its_formula_s(self, kind: Divergence, new: float, base: float) -> None:
        found = divergences(*torch.tensor([new, base], dtype=torch.float64), kind)
        assert float(found) == pytest.approx(reference.divergence(new, base, kind), abs=1e-9)

    @pytest.mark.parametrize("kind", KINDS)
    def test_gradients_are_those_of_finite_differences(self, kind: Divergence) -> None:
        new = torch.tensor([-0.5, -1.0, -3.0], dtype=torch.float64, requires_grad=True)
        base = torch.tensor([-1.0, -0.2, -2.5], dtype=torch.float64)
        torch.autograd.gradcheck(lambda x: divergences(x, base, kind), new)

    def test_the_mean_of_the_estimates_is_the_divergence(self) -> None:
        p, q = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], dtype=torch.float64)
        true = float((p * (p / q).log()).sum())
        for kind in ("k1", "k3"):
            assert float((p * divergences(p.log(), q.log(), kind)).sum()) == pytest.approx(true)

    def test_k3_is_clamped_and_the_others_are_not(self) -> None:
        far = torch.tensor([-100.0]), torch.tensor([0.0])
        assert [float(divergences(*far, kind)) for kind in KINDS] == [-100.0, 5000.0, 10.0, 100.0]
