"""Evaluations of the weights after a step: one answer to each task, with the same draws each time.

What differs between two evaluations is the weights. Rollouts are kept as those of training are, and train nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.trainer.data_orders import Prompt
from services.trainer.rollout_metrics import evaluation_metrics
from services.trainer.sampling import Sampled, Sampler, seed_of_step
from services.trainer.settings import Data
from services.trainer.tasks.task_sets import TaskSet


class Evaluator:
    """Evaluates on the sets whose role is eval."""

    def __init__(self, sets: Sequence[tuple[Data, TaskSet]], seed: int) -> None:
        self._sets = [tasks for data, tasks in sets if data.role == "eval"]
        self._seed = seed
        self.prompts = [
            Prompt(f"{place}/{tasks.dataset_id}/{tasks.task(i).id}", tasks.task(i), tasks)
            for place, tasks in enumerate(self._sets)
            for i in range(len(tasks))
        ]

    def sample(self, sampler: Sampler) -> Sampled:
        return sampler.sample(self.prompts, seed=seed_of_step(self._seed, "eval", 0), n=1)

    def told(self, sampled: Sampled) -> list[dict[str, Any]]:
        """A set each, as `eval.logged` has it."""
        found, begin = [], 0
        for tasks in self._sets:
            samples = sampled.samples[begin : begin + len(tasks)]
            begin += len(tasks)
            found.append(
                {
                    "data_source": tasks.dataset_id,
                    "atlas_id": tasks.atlas_id,
                    "tasks": len(tasks),
                    "samples": len(samples),
                    "metrics": evaluation_metrics(samples, 1),
                }
            )
        return found
