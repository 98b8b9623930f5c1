"""Whole runs of a tiny model for tests: settings of a few steps, and what a run leaves behind."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.trainer.attempts import Opening
from services.trainer.options import Options, Outcome
from services.trainer.rollouts.opening import open_engine
from services.trainer.running import run
from services.trainer.settings import Settings

RUN: dict[str, Any] = {"id": "tiny", "steps": 4, "checkpoint_interval": 2, "threads": 1, "seed": 47}
"""With this seed each of the first steps has something to learn from: no test compares gradients that are 0."""
MODEL: dict[str, Any] = {"kind": "tiny-qwen3", "seed": 1, "hidden_size": 32, "layers": 1}
ALGORITHM: dict[str, Any] = {
    "train_batch_size": 4,
    "n_samples_per_prompt": 8,
    "micro_train_batch_size_per_gpu": 32,
    "max_input_length": 16,
    "max_generate_length": 3,
    "learning_rate": 3e-3,
}


def settings(folder: Path, **parts: Any) -> Settings:
    """Of a run of four short steps. `run`, `model` and `algorithm` change single settings; other tables are whole."""
    return Settings.model_validate(
        {
            "data": [{"kind": "digits", "count": 10}],
            **parts,
            "run": {**RUN, "folder": folder, **parts.get("run", {})},
            "model": {**MODEL, **parts.get("model", {})},
            "algorithm": {**ALGORITHM, **parts.get("algorithm", {})},
        }
    )


@dataclass
class Ran:
    """A run and what it told."""

    settings: Settings
    outcome: Outcome
    told: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.settings.run.folder

    def steps(self, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(each[name] for name in names) for each in self.told if each["kind"] == "step"]

    def notes(self) -> list[str]:
        return [each["text"] for each in self.told if each["kind"] == "note"]

    def weights(self, step: int) -> dict[str, str]:
        return weights(self.folder / "checkpoints" / f"global_step_{step}")


def train(given: Settings, *, opening: Opening = open_engine, **options: Any) -> Ran:
    told: list[Mapping[str, Any]] = []
    return Ran(given, run(given, Options(**options), tell=told.append, opening=opening), told)


def weights(checkpoint: Path) -> dict[str, str]:
    """The digests of a checkpoint's tensor files: weights and optimizer."""
    files = sorted(checkpoint.glob("weights/*.distcp")) + sorted(checkpoint.glob("optimizer/*.distcp"))
    assert files
    return {str(f.relative_to(checkpoint)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}
