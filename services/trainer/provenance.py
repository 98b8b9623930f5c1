"""What the training loop tells the ledger: a word for each thing that happens to a run, on the first process alone.

Everything goes through the recorder, whose spool lies in the run's folder: with the ledger away it waits there, and
`ledger sync` sends it. What is told of code and versions is looked up where it runs, never guessed.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import ledger
from ledger.client.drafts import Actor
from ledger.client.receipts import read_receipt
from ledger.client.recording import Recorder, Report
from ledger.client.recording.files import read_files
from ledger.core import clock
from ledger.core.ids import sha256_hex
from services.trainer.checkpoint_folders import Checkpoint
from services.trainer.data_orders import Prompt, recorded
from services.trainer.models import LoadedModel
from services.trainer.objective.identity import algorithm_fields
from services.trainer.rollouts.engines import Engine
from services.trainer.rollouts.probing import Sent
from services.trainer.sampling import Sample
from services.trainer.selections import Choice
from services.trainer.settings import Data, Settings
from services.trainer.tasks.task_sets import TaskSet

PACKAGE: Final = "atlas-ledger"
SPOOL: Final = "spool"
MAX_GROUPS: Final = 2_000
"""Groups that one event names."""
_LIBRARIES: Final = ("torch", "transformers")
_WHOLE: Final = {"weights": True, "optimizer": True, "scheduler": True, "data_state": True}


def open_recorder(
    settings: Settings, address: str | None, attempt: int, *, rank: int = 0, by: Actor | None = None
) -> Recorder:
    """The run's recorder; on other processes than the first it does nothing."""
    return Recorder(address, run=settings.run.id, spool=settings.run.folder / SPOOL, attempt=attempt, rank=rank, by=by)


class Provenance:
    """Tells of one attempt."""

    def __init__(self, recorder: Recorder, settings: Settings) -> None:
        self._recorder = recorder
        self._settings = settings

    @property
    def recorder(self) -> Recorder:
        return self._recorder

    def declare(
        self,
        loaded: LoadedModel,
        sets: Sequence[tuple[Data, TaskSet]],
        engine: Engine,
        *,
        world_size: int,
        receipt: Path | None,
    ) -> None:
        """What the run is."""
        run = self._settings.run
        self._recorder.declare_run(
            campaign_id=run.campaign,
            arm=run.arm,
            purpose=run.purpose,
            rl_start=loaded.ref,
            root_architecture=loaded.root,
            sources=[source_of(data, tasks) for data, tasks in sets],
            code=code_revisions(engine),
            algorithm=algorithm_fields(self._settings, world_size),
            parallelism=parallelism(loaded, world_size),
            planned_steps=run.steps,
            checkpoint_interval=run.checkpoint_interval,
            max_checkpoints_kept=run.checkpoints_kept or None,
            **({} if receipt is None else cited(receipt)),
        )

    def begin(self, engine: Engine, loaded: LoadedModel, world_size: int, resumed: Mapping[str, Any] | None) -> None:
        """An attempt begins, with this configuration. `resumed` is the checkpoint, as `attempt.started` has it."""
        self._recorder.start_attempt(
            resumed_from=resumed,
            started_at=now(),
            code=code_revisions(engine),
            parallelism=parallelism(loaded, world_size),
        )
        self._recorder.config(self._settings.recorded())

    def loaded(self, checkpoint: Checkpoint, digest: str, state: Mapping[str, Any], *, rng: bool) -> None:
        self._recorder.loaded(
            checkpoint.step,
            digest=digest,
            restored={**_WHOLE, "rng": rng},
            data_state=recorded(state["data"]),
            recorded_step=int(state["step"]),
        )

    def synced(self, step: int, sent: Sent) -> None:
        self._recorder.record(
            "weights.synced",
            {
                "step": step,
                "weight_version": sent.weight_version,
                "engines": 1,
                "probe_difference": sent.difference,
                "probe_tolerance": sent.tolerance,
            },
        )

    def step(self, step: int, metrics: Mapping[str, float], *, weight_version: int, epoch: int) -> None:
        self._recorder.step(step, metrics, weight_version=weight_version, epoch=epoch)

    def rollouts(self, step: int, samples: Sequence[Sample], *, trained: int | None) -> None:
        """How many rollouts came to what; of an evaluation, which trains nothing, with `trained` None."""
        failed = Counter(sample.error for sample in samples if sample.error is not None)
        treatment = self._settings.algorithm.error_treatment
        fields: dict[str, Any] = {"phase": "eval"}
        if trained is not None:
            masked = sum(sample.excluded for sample in samples)
            fields = {"phase": "train", "consumed": len(samples), "trained": trained, "masked": masked}
        rewards = Counter(sample.reward for sample in samples if sample.reward is not None)
        self._recorder.rollouts(
            step,
            started=len(samples),
            finished=sum(sample.finish != "error" for sample in samples),
            verified=sum(sample.error is None for sample in samples),
            errors=[
                {"exception_type": kind, "treatment": treatment, "count": count}
                for kind, count in sorted(failed.items())
            ],
            rewards=[{"reward": reward, "count": count} for reward, count in sorted(rewards.items())],
            **fields,
        )

    def disposed(
        self, step: int, prompts: Sequence[Prompt], found: Sequence[tuple[str, str | None]], weight_version: int
    ) -> None:
        """What became of each group of a step; of very many only the counts."""
        n = self._settings.algorithm.n_samples_per_prompt
        if len(found) > MAX_GROUPS:
            counts = [
                {"disposition": kind, "reason": reason, "groups": count, "samples": count * n}
                for (kind, reason), count in Counter(found).items()
            ]
            self._recorder.record("groups.disposed", {"step": step, "counts": counts})
            return
        groups = [
            {
                "group": prompt.group,
                "disposition": disposition,
                "reason": reason,
                "samples": n,
                "atlas_id": prompt.source.atlas_id,
                "weight_version": weight_version,
            }
            for prompt, (disposition, reason) in zip(prompts, found, strict=True)
        ]
        self._recorder.record("groups.disposed", {"step": step, "groups": groups})

    def evaluated(self, step: int, weight_version: int, evaluations: Sequence[Mapping[str, Any]]) -> None:
        self._recorder.record(
            "eval.logged", {"step": step, "weight_version": weight_version, "evaluations": list(evaluations)}
        )

    def saving(self, step: int) -> None:
        self._recorder.saving(step)

    def saved(self, path: Path, state: Mapping[str, Any]) -> str:
        """A checkpoint is there and whole; gives its digest, for which its files are read."""
        files = read_files(path)
        self._recorder.record(
            "checkpoint.committed",
            {
                "attempt": int(state["attempt"]),
                "step": int(state["step"]),
                "last_update": int(state["step"]),
                "weight_version": int(state["weight_version"]),
                **files.as_fields(),
                "format": "torch_dcp",
                "world_size": int(state["world_size"]),
                "contents": {**_WHOLE, "rng": True},
                "data_state": recorded(state["data"]),
                "recorded_step": int(state["step"]),
                "saved_by": "trainer",
                "location": str(path),
                "committed_at": now(),
            },
        )
        return files.digest

    def deleted(self, step: int, attempt: int, reason: str) -> None:
        self._recorder.deleted(step, reason, attempt=attempt)

    def selected(self, choice: Choice) -> None:
        """The decision; the ledger judges it, and the report says so if it is refused."""
        by_rule = {"eligible_steps": choice.eligible_steps, "ema": choice.ema, "reward": choice.reward}
        self._recorder.select(
            choice.saved.step,
            rule=choice.rule,
            purpose=self._settings.select.purpose,
            attempt=choice.saved.attempt,
            digest=choice.saved.digest,
            selected_at=now(),
            **(by_rule if choice.by_rule else {}),
        )

    def complete(self) -> None:
        """All steps are made: no further attempt is planned."""
        self._recorder.end_attempt("completed", ended_at=now())
        self._recorder.end_run("completed", planned_steps=self._settings.run.steps, ended_at=now())

    def close(self) -> Report:
        return self._recorder.close()


def source_of(data: Data, tasks: TaskSet) -> dict[str, Any]:
    """A set of tasks as a run takes it. Its revision is a digest over its tasks as they are."""
    return {
        "atlas_id": tasks.atlas_id,
        "dataset_id": tasks.dataset_id,
        "dataset_revision": tasks.dataset_revision,
        "verifier_revision": tasks.verifier_revision,
        "task_count": len(tasks),
        "role": data.role,
    }


def parallelism(loaded: LoadedModel, world_size: int) -> dict[str, Any]:
    return {
        "strategy": "fsdp2" if world_size > 1 else "single",
        "data": world_size,
        "devices": world_size,
        "device_type": loaded.device.type,
        "rollout_engines": 1,
    }


def code_revisions(engine: Engine | None = None) -> list[dict[str, Any]]:
    """The software that trains, as it is installed here."""
    told: list[dict[str, Any]] = [trainer_revision()]
    if engine is not None:
        told.append({"role": "rollout_engine", "name": engine.name, "version": engine.version})
    told += [{"role": "other", "name": name, "version": _version(name)} for name in _LIBRARIES]
    if (gym := _version("reasoning-gym")) is not None:
        told.append({"role": "data_tools", "name": "reasoning-gym", "version": gym})
    return told


def trainer_revision(role: str = "trainer") -> dict[str, Any]:
    """This package: its version, and its commit where it lies in a git tree that holds it."""
    commit, dirty = _git_state(Path(ledger.__file__).parent)
    return {"role": role, "name": PACKAGE, "version": _version(PACKAGE), "commit": commit, "dirty": dirty}


def cited(receipt: Path) -> dict[str, Any]:
    """A consumption receipt, as `run.declared` cites it.

    Raises:
        InvalidInput: reason INVALID_FILE, if it is none.
    """
    said, content = read_receipt(receipt), receipt.read_bytes()
    ref = {
        "name": receipt.name,
        "sha256": sha256_hex(content),
        "size": len(content),
        "media_type": "application/json",
    }
    return {"consumption_receipt": ref, "consumption_size": said["size"]}


def now() -> str:
    return clock.to_text(clock.system_clock())


def _git_state(folder: Path) -> tuple[str | None, bool | None]:
    """The commit, and whether the working tree differs from it. An environment inside another project's tree is none of
    that project's: its files are not tracked there."""
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None, None
    commit, changes = _git(folder, "rev-parse", "HEAD"), _git(folder, "status", "--porcelain")
    return commit, None if changes is None else bool(changes)


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603  # fixed words; git is looked up where the user has it
            ["git", "-C", str(folder), *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
