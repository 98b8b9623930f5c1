"""The policy that is trained: a model with its optimizer, read in micro-batches.

The model stays in evaluation mode: it is trained as it is sampled from, without dropout. The optimizer is AdamW with a
learning rate that rises in a line over the warm-up and then stays; it is a function of the step alone, so that nothing
of it has to be kept.

A parameter in bfloat16 has 8 bits: an update of less than some thousandth of it would be rounded away, which at usual
learning rates is nearly every one. So the optimizer works on a copy in float32, which sums up what the parameter is the
rounding of; gradients are added up in float32 too. The copy is the optimizer's state, and saved with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from services.trainer.batches import Micro, StepBatch
from services.trainer.distributed import Team, full
from services.trainer.models import full_names
from services.trainer.objective.batches import MicroBatch, MiniBatch
from services.trainer.objective.metrics import no_sums
from services.trainer.objective.objective import Advantages, Objective
from services.trainer.settings import Algorithm


@dataclass(frozen=True)
class Updated:
    """What one optimizer step came to."""

    sums: Tensor
    """Of this process's micro-batches; see `objective.metrics`."""
    grad_norm: float
    made: bool
    """False: nothing was in the loss, or the gradient was not finite; weights and moments were left as they are."""


class Policy:
    """Wraps a model whose parameters may be spread over processes."""

    def __init__(self, model: Any, settings: Algorithm, team: Team) -> None:
        self.model = model
        self.team = team
        self._settings = settings
        self.objective = Objective(settings, world_size=team.world_size)
        self._masters = [(parameter, _master(parameter)) for parameter in model.parameters()]
        self.optimizer = torch.optim.AdamW(
            [master for _, master in self._masters], lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self._make_moments()

    @property
    def named(self) -> dict[str, Tensor]:
        """Parameters and lasting buffers by their Hugging Face names, tied ones once."""
        return full_names(self.model)

    @property
    def optimizer_state(self) -> dict[str, Tensor]:
        """What the optimizer keeps of each parameter, by the parameter's name: its moments, and its copy of it."""
        masters = {id(parameter): master for parameter, master in self._masters}
        found: dict[str, Tensor] = {}
        for name, tensor in self.named.items():
            if (master := masters.get(id(tensor))) is None:
                continue  # a buffer: it is not trained
            found |= {f"{name}.{kind}": value for kind, value in self.optimizer.state[master].items()}
            if master is not tensor:
                found[f"{name}.master"] = master
        return found

    def learning_rate(self, step: int) -> float:
        """Of a step, the first being 1."""
        warmup = self._settings.warmup_steps
        return self._settings.learning_rate * min(1.0, step / warmup if warmup else 1.0)

    def logprobs(self, batch: StepBatch, micros: Iterable[Micro], model: Any = None) -> Tensor:
        """[samples, tokens] of all rows, on the CPU and on every process; 0 behind an answer's end."""
        found = torch.zeros(batch.tokens.shape, dtype=torch.float32)
        with torch.no_grad():
            for micro in micros:
                width = batch.width(micro)
                real = list(micro.rows[: len(micro.rows) - micro.fillers])
                tokens = batch.tokens[list(micro.rows), :width].to(self.team.device)
                read = self.objective.logprobs(self._logits(batch, micro, model or self.model), tokens)
                found[real, :width] = read.float().cpu()[: len(real)]
        # No row is in two shares, so that a sum over processes adds zeros and is exact.
        return self.team.sum(torch.where(batch.mask.ne(0), found, 0.0))

    def update(  # noqa: PLR0917  # what an optimizer step is made of
        self,
        batch: StepBatch,
        rows: Sequence[int],
        micros: Iterable[Micro],
        step: Advantages,
        old: Tensor,
        reference: Tensor | None,
    ) -> Updated:
        """One optimizer step over a mini-batch's rows, of which the micro-batches are this process's."""
        whole = MiniBatch.of(step.mask[list(rows)], step.values[list(rows)])  # every process has all rows
        sums = no_sums(self.team.device)
        self._drop_gradients()
        for micro in micros:
            loss = self.objective.loss(
                self._micro_batch(batch, micro, step, old, reference),
                whole,
                logits=self._logits(batch, micro, self.model),
            )
            loss.total.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
            self._add_gradients()
            sums += loss.sums
        masters = [master for _, master in self._masters]
        norm = full(torch.nn.utils.clip_grad_norm_(masters, self._settings.max_grad_norm))
        made = bool(norm.isfinite()) and whole.tokens > 0
        if made:
            self.optimizer.step()
            self._round()
        self._drop_gradients()
        return Updated(sums.cpu(), float(norm), made)

    def begin(self, step: int) -> float:
        """Sets the step's learning rate, and gives it."""
        rate = self.learning_rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return rate

    def _add_gradients(self) -> None:
        """Of a pass, to those of the passes before it."""
        for parameter, master in self._masters:
            if master is parameter or parameter.grad is None:
                continue
            if master.grad is None:
                master.grad = parameter.grad.to(master.dtype)
            else:
                master.grad += parameter.grad
            parameter.grad = None

    def _drop_gradients(self) -> None:
        for parameter, master in self._masters:
            parameter.grad = master.grad = None

    @torch.no_grad()
    def _round(self) -> None:
        """The parameters are what their copies round to."""
        for parameter, master in self._masters:
            if master is not parameter:
                parameter.copy_(master)

    def _make_moments(self) -> None:
        """As AdamW would at its first step: a checkpoint has them from the start, and is read back into them."""
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                self.optimizer.state[parameter] = {
                    "step": torch.zeros((), dtype=torch.float32),
                    "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
                    "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
                }

    def _logits(self, batch: StepBatch, micro: Micro, model: Any) -> Tensor:
        inputs = batch.inputs(micro, self.team.device)
        logits: Tensor = model(
            input_ids=inputs.ids,
            attention_mask=inputs.mask,
            position_ids=inputs.positions,
            use_cache=False,
            logits_to_keep=inputs.width + 1,
        ).logits
        return logits[:, :-1]

    def _micro_batch(
        self, batch: StepBatch, micro: Micro, step: Advantages, old: Tensor, reference: Tensor | None
    ) -> MicroBatch:
        rows, width, device = list(micro.rows), batch.width(micro), self.team.device
        real = torch.arange(len(rows)) < len(rows) - micro.fillers
        known = batch.rollout_known[rows]
        return MicroBatch(
            tokens=batch.tokens[rows, :width].to(device),
            mask=torch.where(real.unsqueeze(1), step.mask[rows, :width], 0).to(device),
            advantages=torch.where(real, step.values[rows], 0.0).to(device),
            old_logprobs=old[rows, :width].to(device),
            rollout_logprobs=batch.rollout_logprobs[rows, :width].to(device) if bool(known.any()) else None,
            rollout_known=known.to(device),
            reference_logprobs=None if reference is None else reference[rows, :width].to(device),
        )


def _master(parameter: Tensor) -> Tensor:
    """What the optimizer works on: the parameter itself, or a copy where it has fewer bits than float32."""
    if torch.promote_types(parameter.dtype, torch.float32) == parameter.dtype:
        return parameter
    return parameter.detach().to(torch.float32)
