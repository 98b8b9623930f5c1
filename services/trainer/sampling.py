"""The rollouts of one step: prompts to an engine, answers to their verifiers, and all of it into a file.

What fails says so and is no answer: it is masked, or worth 0, as `algorithm.errors` says. A prompt that is too long, an
engine that fails and a verifier that fails are such failures; a wrong answer is none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ledger.client.recording.payloads import finite_or_name
from ledger.client.rollouts import Message, Rollout, path_of, write_rollouts
from ledger.core import clock
from ledger.events.fields import MAX_TEXT
from services.trainer.data_orders import Prompt
from services.trainer.models import LoadedModel
from services.trainer.rollouts.draws import failed
from services.trainer.rollouts.engines import Completion, Engine, Finish, Sampling
from services.trainer.settings import Algorithm, Settings

TOO_LONG: Final = "PromptTooLong"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One answer with what it earned. Plain values: it is sent from process to process."""

    group: int
    """The place of its prompt in the step."""
    sample: int
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    finish: Finish
    text: str
    reward: float | None
    """As the objective takes it; None: it is left out."""
    error: str | None = None

    @property
    def excluded(self) -> bool:
        return self.reward is None


@dataclass(frozen=True)
class Sampled:
    """What a step's prompts came to."""

    samples: tuple[Sample, ...]
    """Those of one prompt side by side, in the order of the prompts."""
    weight_version: int
    started_at: str
    finished_at: str
    generating: float
    """Seconds."""


class Sampler:
    """Samples from an engine and grades what comes back."""

    def __init__(self, settings: Settings, loaded: LoadedModel, engine: Engine) -> None:
        self._settings = settings
        self._loaded = loaded
        self._engine = engine

    def sample(self, prompts: Sequence[Prompt], *, seed: int, n: int) -> Sampled:
        """`n` graded answers to each prompt."""
        started = clock.system_clock()
        ids = [self._loaded.prompt_ids(prompt.task.prompt) for prompt in prompts]
        answers = self._generate(ids, Sampling(n, self._algorithm.max_generate_length, self._temperature, seed))
        generated = clock.system_clock()
        samples = [
            self._graded(prompt, place, j, ids[place], answer)
            for place, prompt in enumerate(prompts)
            for j, answer in enumerate(answers[place])
        ]
        times = (clock.to_text(started), clock.to_text(clock.system_clock()))
        return Sampled(tuple(samples), self._engine.weight_version, *times, (generated - started) / 1e6)

    @property
    def _algorithm(self) -> Algorithm:
        return self._settings.algorithm

    @property
    def _temperature(self) -> float:
        return self._algorithm.temperature

    def _generate(self, ids: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Completion]]:
        fits = [place for place, prompt in enumerate(ids) if len(prompt) <= self._algorithm.max_input_length]
        answers = [failed(TOO_LONG, sampling.n) for _ in ids]
        if fits:
            found = self._engine.generate([ids[place] for place in fits], sampling)
            for place, completions in zip(fits, found, strict=True):
                answers[place] = completions
        return answers

    def _graded(self, prompt: Prompt, place: int, j: int, prompt_ids: Sequence[int], answer: Completion) -> Sample:
        text = self._loaded.text_of(answer.token_ids)
        sample = Sample(
            group=place,
            sample=j,
            prompt_ids=tuple(prompt_ids),
            token_ids=answer.token_ids,
            logprobs=answer.logprobs,
            finish=answer.finish,
            text=text,
            reward=None,
            error=answer.error or "EngineError" if answer.finish == "error" else None,
        )
        if sample.error is None:
            score = prompt.source.score(prompt.task, text)
            sample = replace(sample, reward=score.reward, error=score.error)
        if sample.reward is None:
            sample = replace(sample, error=sample.error or "NoReward", reward=self._reward_of_failure())
        return sample

    def _reward_of_failure(self) -> float | None:
        return None if self._algorithm.error_treatment == "mask" else 0.0


def seed_of_step(seed: int, what: str, step: int) -> int:
    """Of the draws of one step: a resumed run draws what the first one drew."""
    return int.from_bytes(hashlib.sha256(f"{what}/{seed}/{step}".encode()).digest()[:7])


@dataclass(frozen=True, kw_only=True)
class Told:
    """Of which step a file of rollouts is."""

    run_id: str
    attempt: int
    step: int
    phase: str = "train"


def write(
    folder: Path, told: Told, prompts: Sequence[Prompt], sampled: Sampled, advantages: Sequence[float] | None
) -> Path:
    """Keeps a step's rollouts, whole; evaluations have no advantages, and train nothing."""
    path = path_of(folder, told.attempt, told.step, told.phase)
    write_rollouts(path, _lines(told, prompts, sampled, advantages))
    return path


def _lines(
    told: Told, prompts: Sequence[Prompt], sampled: Sampled, advantages: Sequence[float] | None
) -> Iterable[Rollout]:
    for place, sample in enumerate(sampled.samples):
        advantage = None if advantages is None or sample.excluded else float(advantages[place])
        consumed = advantages is not None
        yield _line(told, prompts[sample.group], sample, sampled).model_copy(
            update={
                "advantage": advantage,
                "consumed": consumed,
                "masked": consumed and sample.excluded,
                "trained": bool(advantage) and bool(sample.token_ids),
            }
        )


def _line(told: Told, prompt: Prompt, sample: Sample, sampled: Sampled) -> Rollout:
    asked = [Message(role="user", content=prompt.task.prompt)]
    answered = [] if sample.finish == "error" else [Message(role="assistant", content=sample.text[:MAX_TEXT])]
    return Rollout(
        run_id=told.run_id,
        attempt=told.attempt,
        step=told.step,
        weight_version=sampled.weight_version,
        phase="eval" if told.phase == "eval" else "train",
        trial_id=f"{told.phase}-{told.attempt}-{told.step}-{sample.group}-{sample.sample}",
        group=prompt.group,
        sample=sample.sample,
        task_id=prompt.task.id,
        dataset_id=prompt.source.dataset_id,
        dataset_revision=prompt.source.dataset_revision,
        verifier_revision=prompt.source.verifier_revision,
        atlas_id=prompt.source.atlas_id,
        messages=asked + answered,
        prompt_token_ids=list(sample.prompt_ids),
        completion_token_ids=list(sample.token_ids),
        logprobs=None if sample.logprobs is None else [finite_or_name(p) for p in sample.logprobs],
        reward=sample.reward,
        finish_reason=sample.finish,
        exception_type=sample.error,
        consumed=False,
        masked=False,
        trained=False,
        started_at=sampled.started_at,
        finished_at=sampled.finished_at,
    )
