"""The loop: one attempt of a run, from where it begins to its last step.

Per step: the rollouts of the weights before it, the update, the new weights to the engine with a probe, the metrics to
the ledger; then an evaluation and a save, where one is due. So the metrics of a step are recorded before the checkpoint
that holds its update: no checkpoint is without them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from ledger.client.recording.configs import Config
from services.trainer import checkpoints, selections
from services.trainer.checkpoint_folders import Checkpoint
from services.trainer.checkpoints import Restored
from services.trainer.data_orders import DataOrder, Prompt
from services.trainer.distributed import Team
from services.trainer.evaluations import Evaluator
from services.trainer.exporting import write_folder
from services.trainer.histories import History, Saved
from services.trainer.keeping import delete_old
from services.trainer.models import LoadedModel
from services.trainer.objective.identity import identity
from services.trainer.policies import Policy
from services.trainer.provenance import Provenance
from services.trainer.rollouts.engines import Engine, Weights
from services.trainer.rollouts.probing import Sent, WeightSync, forward_logprobs, probe_tokens
from services.trainer.sampling import Sampled, Sampler, Told, seed_of_step, write
from services.trainer.settings import Data, Settings
from services.trainer.steps import Clock, Skipped, StepDone, Stepper, dispositions
from services.trainer.stopping import uninterrupted
from services.trainer.tasks.task_sets import TaskSet

Tell = Callable[[Mapping[str, Any]], None]
"""Shows people what happens: a mapping with `kind`."""
SENDING: Final = ".weights"
"""A folder of the weights that were sent last, for engines that read them from one."""
_SHOWN: Final = {
    "reward": "reward/avg_raw_reward",
    "entropy": "policy/policy_entropy",
    "grad_norm": "policy/raw_grad_norm",
    "loss": "policy/final_loss",
    "seconds": "timing/step",
}


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What the loop works with. Engine, provenance and history are the first process's alone."""

    settings: Settings
    team: Team
    loaded: LoadedModel
    policy: Policy
    reference: Any
    sets: Sequence[tuple[Data, TaskSet]]
    engine: Engine | None
    provenance: Provenance
    history: History
    attempt: int
    tell: Tell


class Training:
    """One attempt."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._settings = parts.settings
        self._run = parts.settings.run
        self._order = DataOrder([tasks for data, tasks in parts.sets if data.role == "train"], self._run.seed)
        self._stepper = Stepper(
            parts.policy, parts.settings.algorithm, int(parts.loaded.tokenizer.pad_token_id), parts.reference
        )
        self._probe = probe_tokens(parts.settings, parts.loaded.tokenizer)
        self._expected: list[float] = []
        self._sampler: Sampler | None = None
        self._sync: WeightSync | None = None
        if parts.engine is not None:
            self._sampler = Sampler(parts.settings, parts.loaded, parts.engine)
            self._sync = WeightSync(
                parts.engine, self._probe, lambda _: self._expected, parts.settings.rollouts.probe_tolerance
            )
        self._evaluator = Evaluator(parts.sets, self._run.seed)
        self._skipped = Skipped()

    def go_on(self, checkpoint: Checkpoint, restored: Restored) -> None:
        """Goes on from a checkpoint that was read back into the policy."""
        self._order.restore(restored.state["data"])
        history = self._parts.history
        behind = [history.skipped.get(place, False) for place in history.lineage(checkpoint.attempt, checkpoint.step)]
        self._skipped = Skipped(len(behind), sum(behind))

    def run(self, begin: int) -> None:
        """Trains from the step after `begin` to the last one."""
        if begin == 0:
            checkpoints.seed_generators(self._parts.team, self._run.seed, 0)
        self._send(begin)
        if begin == 0:
            self._evaluate(0)
        for step in range(begin + 1, self._run.steps + 1):
            self._step(step)
            self._evaluate(step)
            if step % self._run.checkpoint_interval == 0 or step == self._run.steps:
                self._save(step)
        if self._parts.team.is_first:  # nobody reads it any more: the engine has the last weights
            shutil.rmtree(self._run.folder / SENDING, ignore_errors=True)

    def _step(self, step: int) -> None:
        clock, prompts = Clock(), self._order.take(self._settings.algorithm.train_batch_size)
        told: dict[str, float] = {}
        done: StepDone | None = None
        try:
            with clock("step"):
                done = self._stepper.step(
                    step,
                    prompts,
                    sample=lambda: self._sample(prompts, step),
                    keep=lambda sampled, advantages: self._keep(step, prompts, sampled, advantages.values.tolist()),
                    clock=clock,
                    before=self._skipped,
                )
                with clock("sync_weights"):
                    told = self._send(step).metrics()
        finally:
            if done is not None:  # a step that was made is recorded, also where its weights never arrived
                self._note_step(step, prompts, done, {**clock.spent, **told})

    def _note_step(self, step: int, prompts: Sequence[Prompt], done: StepDone, more: Mapping[str, float]) -> None:
        """Counts what was trained, on all processes; the first one tells it."""
        parts, version, without = self._parts, done.sampled.weight_version, _went_without(done.metrics)
        found = dispositions(done, self._smallest_group)
        self._order.trained(sum(disposition == "consumed" for disposition, _ in found))
        self._skipped = Skipped(self._skipped.steps + 1, self._skipped.without + without)
        if parts.engine is None:
            return
        place = {"trainer/global_step": float(step), "trainer/epoch": float(self._order.epoch)}
        metrics = {**done.metrics, **parts.engine.metrics(), **place, **more}
        parts.provenance.step(step, metrics, weight_version=version, epoch=self._order.epoch)
        parts.provenance.disposed(step, prompts, found, version)
        parts.provenance.rollouts(step, done.sampled.samples, trained=done.trained)
        parts.history.step(parts.attempt, step, metrics.get(selections.METRIC), skipped=without)
        shown = {name: metrics.get(key) for name, key in _SHOWN.items()}
        parts.tell({"kind": "step", "step": step, "of": self._run.steps, **shown})

    def _sample(self, prompts: Sequence[Prompt], step: int) -> Sampled:
        assert self._sampler is not None
        n = self._settings.algorithm.n_samples_per_prompt
        return self._sampler.sample(prompts, seed=seed_of_step(self._run.seed, "train", step), n=n)

    def _keep(self, step: int, prompts: Sequence[Prompt], sampled: Sampled, advantages: Sequence[float] | None) -> Path:
        phase = "eval" if advantages is None else "train"
        told = Told(run_id=self._run.id, attempt=self._parts.attempt, step=step, phase=phase)
        return write(self._run.folder, told, prompts, sampled, advantages)

    def _send(self, step: int) -> Sent:
        """The weights after a step, to the engine. What the other processes hold is gathered first."""
        parts = self._parts
        named = parts.team.gather(parts.policy.named)
        self._expected = forward_logprobs(parts.policy.model, self._probe)

        def send() -> Sent:
            assert self._sync is not None
            sent = self._sync.send(Weights(step, lambda: named, lambda: self._folder(named)))
            parts.provenance.synced(step, sent)
            return sent

        return parts.team.share(send)

    def _folder(self, weights: Mapping[str, Tensor]) -> Path:
        folder = self._run.folder / SENDING
        shutil.rmtree(folder, ignore_errors=True)
        write_folder(self._parts.loaded, weights, folder, self._settings)
        return folder

    def _evaluate(self, step: int) -> None:
        """Of the weights after a step, with the same draws each time."""
        interval = self._run.eval_interval
        if interval and step % interval == 0:
            self._parts.team.share(lambda: self._evaluated(step))

    def _evaluated(self, step: int) -> None:
        assert self._sampler is not None
        sampled = self._evaluator.sample(self._sampler)
        told = self._evaluator.told(sampled)
        self._keep(step, self._evaluator.prompts, sampled, None)
        self._parts.provenance.rollouts(step, sampled.samples, trained=None)
        self._parts.provenance.evaluated(step, step, told)
        scores = {each["data_source"]: each["metrics"].get("avg_score") for each in told}
        self._parts.tell({"kind": "evaluated", "step": step, "scores": scores})

    def _save(self, step: int) -> None:
        parts = self._parts
        parts.team.share(lambda: parts.provenance.saving(step))
        state = self.state(step)
        temperature = self._settings.algorithm.temperature
        with uninterrupted():  # what is told to stop has its last save whole, and recorded
            path = checkpoints.save(self._run.folder, parts.policy, parts.loaded, state, temperature=temperature)
            parts.team.share(lambda: self._committed(path, state))

    def state(self, step: int) -> dict[str, Any]:
        """What a checkpoint says of the trainer, as plain JSON."""
        algorithm = self._settings.algorithm
        return {
            "run_id": self._run.id,
            "attempt": self._parts.attempt,
            "step": step,
            "weight_version": step,
            "config_digest": Config.of(self._settings.recorded()).digest,
            "world_size": self._parts.team.world_size,
            "algorithm": identity(algorithm, self._parts.team.world_size),
            "data": self._order.state(),
            "scheduler": {"name": "constant_with_warmup", "warmup_steps": algorithm.warmup_steps, "last_step": step},
        }

    def _committed(self, path: Path, state: Mapping[str, Any]) -> None:
        parts, step = self._parts, int(state["step"])
        digest = parts.provenance.saved(path, state)
        parts.history.save(Saved(parts.attempt, step, path.name, digest))
        parts.tell({"kind": "saved", "step": step, "path": str(path)})
        delete_old(parts.history, self._settings, parts.provenance)

    @property
    def _smallest_group(self) -> int:
        algorithm = self._settings.algorithm
        return algorithm.rloo_n_min_group_size or 2


def _went_without(metrics: Mapping[str, float]) -> bool:
    """Importance weights were wanted for the step, and the engine gave no log-probabilities."""
    return metrics.get("tis/batch_skipped_no_logprobs", 0.0) > 0
