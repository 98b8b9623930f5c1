"""Advantages against those that TRL's trainer computes in a step of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from services.trainer.objective.advantages import rloo_n
from services.trainer.tiny_models import build_model, build_tokenizer

pytestmark = [
    pytest.mark.peers,
    # TRL sets and asks what transformers renamed.
    pytest.mark.filterwarnings("ignore:`(is_)?gradient_checkpointing.*` is deprecated:FutureWarning"),
]

SAMPLES = 4


def step_of_trl(rewards: Sequence[float | None], folder: Path) -> tuple[list[float], list[float]]:
    """The rewards as one generation's samples got them, and the advantages that the trainer made of them."""
    from datasets import Dataset  # noqa: PLC0415  # is in the environment of peers only
    from trl import RLOOConfig, RLOOTrainer  # noqa: PLC0415  # as above

    given: Iterator[float | None] = iter(rewards)
    seen: dict[str, torch.Tensor] = {}

    class Watched(RLOOTrainer):  # type: ignore[misc]  # the library has no types here
        def _calculate_rewards(self, *args: Any) -> Any:
            seen["rewards"] = super()._calculate_rewards(*args)
            return seen["rewards"]

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            outputs = super()._generate_and_score_completions(inputs)
            seen["advantages"] = outputs["advantages"]
            return outputs

    config = RLOOConfig(
        output_dir=str(folder),
        use_cpu=True,
        report_to=[],
        beta=0.0,
        num_generations=SAMPLES,
        per_device_train_batch_size=len(rewards),
        max_completion_length=2,
        max_steps=1,
        save_strategy="no",
    )
    trainer = Watched(
        model=build_model(0, 32, 1, tied=True),
        processing_class=build_tokenizer(),
        args=config,
        train_dataset=Dataset.from_dict({"prompt": [f"{n} + {n} =" for n in range(len(rewards) // SAMPLES)]}),
        reward_funcs=lambda completions, **_: [next(given) for _ in completions],
    )
    trainer.train()
    return seen["rewards"][:, 0].tolist(), seen["advantages"].tolist()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("failures", [0.0, 0.4])
def test_advantages_are_those_of_trl_and_a_reward_of_none_is_an_excluded_sample(
    failures: float, seed: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    said = [None if rng.random() < failures else rng.choice([0.0, 0.25, 0.5, 1.0]) for _ in range(4 * SAMPLES)]
    rewards, theirs = step_of_trl(said, tmp_path)
    scores = torch.tensor(rewards)
    groups = torch.arange(4).repeat_interleave(SAMPLES)
    ours = rloo_n(scores, groups, scores.isnan(), 2).values
    assert bool(scores.isnan().any()) == (failures > 0)
    assert ours.tolist() == pytest.approx(theirs, abs=1e-6)
