"""Training in bfloat16: the optimizer's copies in float32 keep what a parameter of 8 bits would round away."""

from __future__ import annotations

import copy
import json

import pytest
import torch

from ledger.client.testing import FakeLedger
from services.trainer import models
from services.trainer.batches import Micro
from services.trainer.distributed import Team
from services.trainer.objective.objective import Advantages
from services.trainer.policies import Policy
from services.trainer.sampling import Sample
from services.trainer.steps import StepBatch
from tests.trainer.runs import settings, train

BFLOAT16 = {"model": {"dtype": "bfloat16"}}


def sample(group: int, number: int, answer: tuple[int, ...], reward: float) -> Sample:
    return Sample(
        group=group,
        sample=number,
        prompt_ids=(4, 9, 10),
        token_ids=answer,
        logprobs=None,
        finish="stop",
        text="",
        reward=reward,
    )


def updated(policy: Policy, updates: int) -> None:
    """The same small batch again and again."""
    batch = StepBatch([sample(0, 0, (11, 12), 1.0), sample(0, 1, (13, 14), 0.0)], 0)
    micros = [Micro((0,)), Micro((1,))]
    advantages = Advantages(
        values=torch.tensor([1.0, -1.0]), scores=batch.rewards, mask=batch.mask, outcomes={0: "trained"}, metrics={}
    )
    for _ in range(updates):
        old = policy.logprobs(batch, micros)
        assert policy.update(batch, [0, 1], micros, advantages, old, None).made


@pytest.mark.slow
def test_small_updates_add_up_where_plain_bfloat16_would_lose_each_of_them(tmp_path):
    given = settings(tmp_path, **BFLOAT16, algorithm={"learning_rate": 1e-6, "weight_decay": 0.0})
    loaded = models.load(given.model)
    before = copy.deepcopy(dict(loaded.model.named_parameters()))
    policy = Policy(loaded.model, given.algorithm, Team(loaded.device))
    updated(policy, 40)
    name = "model.layers.0.self_attn.q_proj.weight"
    now, state = policy.named[name], policy.optimizer_state
    moved = (state[f"{name}.master"] - before[name].detach().float()).abs()
    assert moved.max().item() == pytest.approx(40 * 1e-6, rel=0.3)  # AdamW moves by the learning rate
    assert now.dtype == torch.bfloat16
    assert now.equal(state[f"{name}.master"].bfloat16())
    assert bool((now != before[name]).any())
    # The control: each of these updates alone is lost to a parameter of 8 bits, wherever it is not tiny.
    large = before[name].detach().abs() > 1e-2
    assert (before[name] + 1e-6)[large].equal(before[name][large])


def test_in_bfloat16_engine_and_trainer_agree_as_they_do_in_float32(tmp_path):
    """The angles of positions stay in float32 in both."""
    with FakeLedger() as ledger:
        train(settings(tmp_path, run={"steps": 2}, model={"dtype": "bfloat16"}), address=ledger.address)
    assert [e.payload["probe_difference"] for e in ledger.of_type("weights.synced")] == [0.0] * 3
    config = json.loads((tmp_path / "checkpoints" / "global_step_2" / "huggingface" / "config.json").read_bytes())
    assert config["dtype"] == "bfloat16"


def test_in_float32_there_is_no_second_copy(tmp_path):
    given = settings(tmp_path)
    loaded = models.load(given.model)
    policy = Policy(loaded.model, given.algorithm, Team(loaded.device))
    assert not [name for name in policy.optimizer_state if name.endswith(".master")]
    assert {id(p) for p in loaded.model.parameters()} == {
        id(p) for g in policy.optimizer.param_groups for p in g["params"]
    }


def test_a_run_in_bfloat16_that_goes_on_ends_as_one_that_never_stopped(tmp_path):
    """Its copies are state: rounded weights alone would not do."""
    slow = {**BFLOAT16, "algorithm": {"learning_rate": 1e-5}}
    whole = train(settings(tmp_path / "whole", **slow))
    train(settings(tmp_path / "cut", run={"steps": 2}, **slow))
    rest = train(settings(tmp_path / "cut", **slow))
    assert rest.outcome.from_step == 2
    assert rest.weights(4) == whole.weights(4)
    assert rest.steps("loss", "grad_norm") == whole.steps("loss", "grad_norm")[2:]


def test_gradients_of_many_passes_are_added_in_float32(tmp_path):
    given = settings(tmp_path, **BFLOAT16)
    loaded = models.load(given.model)
    policy = Policy(loaded.model, given.algorithm, Team(loaded.device))
    [parameter, master] = policy._masters[0]  # between two passes nothing else shows it
    for gradient in (1.0, *[2.0**-9] * 8):
        parameter.grad = torch.full_like(parameter, gradient)
        policy._add_gradients()  # as above
    assert parameter.grad is None
    assert master.grad is not None
    assert set(master.grad.flatten().tolist()) == {1 + 2.0**-6}
    assert float(torch.tensor(1.0).bfloat16() + torch.tensor(2.0**-9).bfloat16()) == 1.0  # the control
