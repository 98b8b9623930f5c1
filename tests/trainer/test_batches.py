"""How a step is cut: every row once, the same number of passes on every process, and padding that changes nothing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from services.trainer import models
from services.trainer.batches import Micro, StepBatch, micro_batches, mini_batches
from services.trainer.distributed import Team
from services.trainer.objective.objective import Advantages
from services.trainer.policies import Policy, Updated
from services.trainer.sampling import Sample
from services.trainer.settings import Algorithm, Model


@given(
    rows=st.integers(1, 40).map(lambda n: list(range(100, 100 + n))),
    size=st.integers(1, 9),
    world=st.integers(1, 5),
)
def test_every_row_is_in_one_share_and_all_processes_make_as_many_passes(rows, size, world):
    shares = [micro_batches(rows, size, rank, world) for rank in range(world)]
    assert len({tuple(len(micro.rows) for micro in share) for share in shares}) == 1
    real = [row for share in shares for micro in share for row in micro.rows[: len(micro.rows) - micro.fillers]]
    assert sorted(real) == rows
    assert all(0 < len(micro.rows) <= size for share in shares for micro in share)


@given(prompts=st.integers(1, 12), samples=st.integers(2, 4), size=st.integers(1, 12))
def test_a_mini_batch_holds_whole_groups(prompts, samples, size):
    cuts = mini_batches(prompts, samples, size)
    assert [row for cut in cuts for row in cut] == list(range(prompts * samples))
    assert all(len(cut) % samples == 0 and cut[0] % samples == 0 for cut in cuts)


def sample(prompt: list[int], answer: list[int], *, known: bool = True) -> Sample:
    return Sample(
        group=0,
        sample=0,
        prompt_ids=tuple(prompt),
        token_ids=tuple(answer),
        logprobs=tuple(-1.0 for _ in answer) if known else None,
        finish="stop" if answer else "error",
        text="",
        reward=1.0 if answer else None,
    )


def test_log_probabilities_do_not_hang_on_what_else_is_in_the_batch():
    """Prompts and answers of all lengths, together and alone, against a forward pass without any padding."""
    loaded = models.load(Model(kind="tiny-qwen3", hidden_size=32, layers=2))
    policy = Policy(loaded.model, Algorithm(), Team(loaded.device))
    made = [sample([7, 8, 9], [10, 11]), sample([12], [13, 14, 15, 1]), sample([9] * 6, [20]), sample([5] * 9, [])]
    batch = StepBatch(made, 0)
    together = policy.logprobs(batch, [Micro((0, 1, 2, 3))])
    alone = policy.logprobs(batch, [Micro((row,)) for row in range(4)])
    assert together.shape == (4, 4)
    torch.testing.assert_close(together, alone, atol=2e-5, rtol=1e-5)
    for row, one in enumerate(made):
        with torch.no_grad():
            logits = loaded.model(torch.tensor([[*one.prompt_ids, *one.token_ids]])).logits[0].log_softmax(-1)
        plain = [float(logits[len(one.prompt_ids) - 1 + i, token]) for i, token in enumerate(one.token_ids)]
        torch.testing.assert_close(together[row, : len(plain)], torch.tensor(plain), atol=2e-5, rtol=1e-5)
        assert not together[row, len(plain) :].any()


def test_a_filler_adds_nothing_to_what_is_read():
    loaded = models.load(Model(kind="tiny-qwen3", hidden_size=32, layers=1))
    policy = Policy(loaded.model, Algorithm(), Team(loaded.device))
    batch = StepBatch([sample([7], [10, 11]), sample([8], [12])], 0)
    plain = policy.logprobs(batch, [Micro((0,)), Micro((1,))])
    filled = policy.logprobs(batch, [Micro((0,)), Micro((1, 0), fillers=1)])
    torch.testing.assert_close(filled, plain, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("worth", [float("inf"), float("nan")])
def test_a_gradient_that_is_not_finite_leaves_the_weights_and_the_optimizer_as_they_were(worth):
    loaded = models.load(Model(kind="tiny-qwen3", hidden_size=32, layers=1))
    policy = Policy(loaded.model, Algorithm(), Team(loaded.device))
    batch = StepBatch([sample([7], [10, 11]), sample([8], [12])], 0)
    micros = [Micro((0, 1))]
    old = policy.logprobs(batch, micros)

    def update(value: float) -> Updated:
        advantages = Advantages(
            values=torch.tensor([value, 1.0]), scores=torch.zeros(2), mask=batch.mask, outcomes={}, metrics={}
        )
        return policy.update(batch, [0, 1], micros, advantages, old, None)

    before = {name: tensor.detach().clone() for name, tensor in policy.named.items()}
    left = update(worth)
    assert not left.made
    assert all(tensor.equal(before[name]) for name, tensor in policy.named.items())
    assert all(float(moments["step"]) == 0 for moments in policy.optimizer.state.values())
    assert update(-1.0).made
    assert not all(tensor.equal(before[name]) for name, tensor in policy.named.items())


def test_a_prompt_that_was_too_long_is_not_read():
    batch = StepBatch([sample([5] * 4000, []), sample([6], [7])], 0)
    assert batch.inputs(Micro((0, 1)), torch.device("cpu")).ids.shape == (2, 2)
    assert batch.rewards[0].isnan()
    assert batch.excluded.tolist() == [True, False]
