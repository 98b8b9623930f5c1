"""Whether an engine samples from the weights that it was sent: asked after each sync, and never taken on trust.

    sync = WeightSync(engine, token_ids, expected, tolerance)
    sent = sync.send(weights)              # loads, probes, and tries once more with a fresh engine
    recorder.record("weights.synced", {..., "probe_difference": sent.difference, "probe_tolerance": sent.tolerance})

The probe is a prompt whose log-probabilities the trainer computes with its own forward pass. Weights count as stale

- where the engine's log-probabilities differ from the trainer's by more than the tolerance, or are not finite;
- where they are ten times nearer to those of the weights before than the two are to each other.

A small update may move the prompt's log-probabilities by less than an engine's noise. Then the probe cannot tell old
from new, and says so: `Sent.conclusive`. An engine that keeps old weights for good is still found, since what it misses
adds up from sync to sync until it shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ledger.core.errors import Broken, InvalidInput, Unavailable

if TYPE_CHECKING:
    from services.trainer.rollouts.engines import Engine, Weights
    from services.trainer.settings import Settings

NEARER: Final = 10
"""How many times nearer to the old weights than these are to the new ones counts as old."""
TRIES: Final = 2


class StaleWeights(Broken):
    """An engine samples from other weights than the trainer has."""


@dataclass(frozen=True)
class Sent:
    """Weights that arrived."""

    weight_version: int
    difference: float
    """The largest difference of log-probabilities on the probe, engine against trainer."""
    moved: float | None
    """The same, trainer now against trainer at the last sync; null: there was none."""
    tolerance: float
    tries: int
    """Loads that it took."""

    @property
    def conclusive(self) -> bool:
        """Whether the probe would have seen the weights before: if not, it says only that none are far off."""
        return self.moved is None or self.moved > min(self.tolerance, NEARER * self.difference)

    def metrics(self) -> dict[str, float]:
        """For the step's metrics: the event of a sync has no place for how far the prompt moved."""
        told = {
            "weights/probe_difference": self.difference,
            "weights/probe_conclusive": float(self.conclusive),
            "weights/sync_tries": float(self.tries),
        }
        return told if self.moved is None else {**told, "weights/probe_moved": self.moved}


class WeightSync:
    """Sends weights to one engine and looks whether they arrived.

    Args:
        engine: Takes them.
        token_ids: The probe, at least two tokens.
        expected: The trainer's log-probability of each token but the first, by its weights of the moment.
        tolerance: The largest difference that engine and trainer may have with the same weights.
    """

    def __init__(
        self,
        engine: Engine,
        token_ids: Sequence[int],
        expected: Callable[[Sequence[int]], list[float]],
        tolerance: float,
    ) -> None:
        self._engine = engine
        self._token_ids = list(token_ids)
        self._expected = expected
        self._tolerance = tolerance
        self._before: list[float] | None = None

    def send(self, weights: Weights) -> Sent:
        """Loads and probes; what does not convince is loaded once more, into an engine that starts anew.

        Raises:
            StaleWeights: the engine has other weights than the trainer.
            Unavailable: it does not answer.
        """
        now = self._expected(self._token_ids)
        moved = None if self._before is None else largest_difference(self._before, now)
        for tries in range(1, TRIES + 1):
            try:
                self._engine.load(weights)
                found = self._engine.probe(self._token_ids)
            except Unavailable:
                if tries == TRIES:
                    raise
                self._engine.close()
                continue
            sent = Sent(weights.version, largest_difference(now, found), moved, self._tolerance, tries)
            if not self._stale(sent, found):
                self._before = now
                return sent
            if tries < TRIES:
                self._engine.close()
        raise self._error(sent)

    def _stale(self, sent: Sent, found: list[float]) -> bool:
        if not sent.difference <= self._tolerance:
            return True
        if self._before is None or sent.moved is None:
            return False
        return largest_difference(self._before, found) * NEARER < sent.moved

    def _error(self, sent: Sent) -> StaleWeights:
        moved = "" if sent.moved is None else f"; the update itself moved it by {sent.moved:.3g}"
        return StaleWeights(
            f"the engine {self._engine.name} does not sample from weights {sent.weight_version}: its log-probabilities "
            f"of the probe differ from the trainer's by {sent.difference:.3g} after {sent.tries} loads, and "
            f"{sent.tolerance:.3g} is allowed{moved}",
            remedy="vLLM on a CPU keeps packed weights through a reload: serve by `python -m "
            "services.trainer.rollouts.serving`, which packs none. If engine and trainer differ in dtype, raise "
            "`rollouts.probe_tolerance` above the difference that the first sync shows.",
            details={"difference": repr(sent.difference), "tolerance": repr(sent.tolerance)},
        )


def largest_difference(these: Sequence[float], those: Sequence[float]) -> float:
    """The largest difference of two lists, place by place; infinite if a number is not finite or one is missing."""
    if len(these) != len(those) or not all(map(math.isfinite, [*these, *those])):
        return math.inf
    return max((abs(a - b) for a, b in zip(these, those, strict=True)), default=0.0)


def probe_tokens(settings: Settings, tokenizer: Any) -> list[int]:
    """The probe's tokens.

    Raises:
        InvalidInput: reason USAGE, if they are fewer than two: there would be nothing to compare.
    """
    tokens = [int(t) for t in tokenizer(settings.rollouts.probe_prompt, add_special_tokens=False)["input_ids"]]
    if len(tokens) < 2:  # the first one has no log-probability
        raise InvalidInput(
            f"`rollouts.probe_prompt` has {len(tokens)} tokens, and a probe needs two or more",
            reason="USAGE",
            remedy="Give it a sentence.",
        )
    return tokens


def forward_logprobs(model: Any, token_ids: Sequence[int]) -> list[float]:
    """The log-probability of each token but the first by a forward pass, at temperature 1."""
    import torch  # noqa: PLC0415  # this module is imported where torch need not be

    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            ids = torch.tensor([list(token_ids)], device=next(model.parameters()).device)
            logprobs = model(input_ids=ids, use_cache=False).logits[0, :-1].float().log_softmax(-1)
            return [float(x) for x in logprobs.gather(-1, ids[0, 1:, None])[:, 0].tolist()]
    finally:
        model.train(training)
