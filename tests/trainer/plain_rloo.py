"""REINFORCE leave-one-out in forty lines: on policy, no clip, no correction. A reference for whatever does more."""

from __future__ import annotations

import torch

from services.trainer.models import load
from services.trainer.settings import Data, Model
from services.trainer.tasks.opening import open_task_set

PROMPTS, SAMPLES, TOKENS = 8, 16, 4


def rewards_of_digits(steps: int, seed: int) -> list[float]:
    """The mean reward of each step of a tiny model that learns to say the digit that it is asked for."""
    loaded = load(Model(kind="tiny-qwen3", seed=seed))
    tasks = open_task_set(Data(kind="digits", count=200))
    optimizer = torch.optim.AdamW(loaded.model.parameters(), lr=3e-3, weight_decay=0.0)
    chance = torch.Generator().manual_seed(seed)
    means = []
    for step in range(steps):
        asked = [tasks.task((step * PROMPTS + i) % len(tasks)) for i in range(PROMPTS)]
        prompts = torch.tensor([loaded.prompt_ids(task.prompt) for task in asked]).repeat_interleave(SAMPLES, 0)
        ids, mask = _sampled(loaded.model, prompts, loaded.stop_ids[0], chance)
        answers = [loaded.text_of(row[prompts.shape[1] :].tolist()) for row in ids]
        scores = [tasks.score(asked[i // SAMPLES], answer).reward or 0.0 for i, answer in enumerate(answers)]
        rewards = torch.tensor(scores).view(PROMPTS, SAMPLES)
        others = (rewards.sum(1, keepdim=True) - rewards) / (SAMPLES - 1)
        advantages = (rewards - others).view(-1, 1)
        logits = loaded.model(ids).logits[:, prompts.shape[1] - 1 : -1]
        said = logits.log_softmax(-1).gather(-1, ids[:, prompts.shape[1] :, None])[..., 0]
        optimizer.zero_grad()
        (-(said * advantages * mask).sum() / mask.sum()).backward()
        torch.nn.utils.clip_grad_norm_(loaded.model.parameters(), 1.0)
        optimizer.step()
        means.append(rewards.mean().item())
    return means


@torch.no_grad()
def _sampled(
    model: torch.nn.Module, ids: torch.Tensor, end: int, chance: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    ended, mask = torch.zeros(len(ids), dtype=torch.bool), []
    for _ in range(TOKENS):
        drawn = torch.multinomial(model(ids).logits[:, -1].softmax(-1), 1, generator=chance)[:, 0]
        ids = torch.cat([ids, torch.where(ended, 0, drawn)[:, None]], 1)
        mask.append(~ended)
        ended = ended | (drawn == end)
    return ids, torch.stack(mask, 1).float()
