"""One attempt: where it begins, what it trains with, and what is decided when all steps are made.

- An attempt begins with the latest checkpoint, with that of a step, or with none. A checkpoint is looked at before
  anything is recorded: what is not whole, another run's, or not what was recorded at its save, starts no attempt.
- Attempts are counted by the run's own history and checkpoints, wherever the recorder's spool is.
- A checkpoint that is whole, and was not recorded since a crash came between, is recorded now.
- The end is recorded before the export: a run whose export fails has been trained all the same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ledger.client.recording import Recorder, Report
from ledger.client.recording.configs import Config
from ledger.core.errors import InvalidInput
from services.trainer import checkpoint_folders, checkpoints, selections
from services.trainer.checkpoint_folders import Checkpoint
from services.trainer.distributed import Team
from services.trainer.exporting import Exported, Exporter
from services.trainer.histories import Begun, History, Saved
from services.trainer.models import LoadedModel, full_names
from services.trainer.objective.objective import Objective
from services.trainer.options import Options, Outcome
from services.trainer.policies import Policy
from services.trainer.provenance import Provenance, cited, open_recorder
from services.trainer.rollouts.engines import Engine
from services.trainer.settings import Data, Settings
from services.trainer.tasks.opening import open_task_set
from services.trainer.tasks.task_sets import TaskSet
from services.trainer.training import Parts, Tell, Training

EXPORTS: Final = "exports"
Opening = Callable[[Settings, LoadedModel], Engine]
"""Opens the engine that the settings name."""


@dataclass(frozen=True)
class Beginning:
    """Where an attempt begins."""

    attempt: int
    checkpoint: Checkpoint | None
    complete: bool
    """All steps were made already."""

    @property
    def step(self) -> int:
        return self.checkpoint.step if self.checkpoint else 0


class Attempt:
    """One start of the program, on one of its processes."""

    def __init__(
        self, settings: Settings, options: Options, tell: Tell, team: Team, loaded: LoadedModel, *, opening: Opening
    ) -> None:
        self._settings, self._options, self._tell, self._opening = settings, options, tell, opening
        self._team, self._loaded = team, loaded
        self._folder = settings.run.folder
        self._history = History(self._folder if team.is_first else None)

    def run(self) -> Outcome:
        beginning = self._team.share(self._beginning)
        if beginning.complete:
            self._note(f"The run has its {self._settings.run.steps} steps: nothing is left to do.")
            return self._outcome(beginning, None, None, None)
        sets = [(data, open_task_set(data)) for data in self._settings.data]
        engine = self._open_engine()
        try:
            policy, reference = self._policy()
            restored = self._read_back(beginning.checkpoint, policy)
            with open_recorder(
                self._settings,
                self._options.address,
                beginning.attempt,
                rank=self._team.rank,
                by=self._options.by,
            ) as recorder:
                provenance = Provenance(recorder, self._settings)
                if engine is not None:
                    self._declare(beginning, restored, provenance, sets, engine)
                parts = Parts(
                    settings=self._settings,
                    team=self._team,
                    loaded=self._loaded,
                    policy=policy,
                    reference=reference,
                    sets=sets,
                    engine=engine,
                    provenance=provenance,
                    history=self._history,
                    attempt=beginning.attempt,
                    tell=self._tell,
                )
                training = Training(parts)
                if beginning.checkpoint is not None and restored is not None:
                    training.go_on(beginning.checkpoint, restored)
                training.run(beginning.step)
                choice, exported = self._finish(provenance, recorder)
                report = recorder.close()
            return self._outcome(beginning, choice, exported, report)
        finally:
            if engine is not None:
                engine.close()

    def _beginning(self) -> Beginning:
        if self._options.receipt is not None:
            cited(self._options.receipt)  # what is no receipt starts no attempt
        checkpoint = self._find()
        for path in checkpoint_folders.leftovers(self._folder):
            self._note(f"{path} is half a save: it is never loaded, and may be removed.")
        saved = max((one.attempt for one in checkpoint_folders.found(self._folder)), default=0)
        steps = self._settings.run.steps
        complete = self._options.resume == "auto" and self._history.completed_steps >= steps
        if checkpoint is not None and checkpoint.step > steps and not complete:
            raise InvalidInput(
                f"{checkpoint.path.name} is beyond the {steps} steps that are asked for",
                reason="USAGE",
                remedy=f"Ask for {checkpoint.step} steps or more, or name an earlier step with --resume.",
            )
        return Beginning(max(self._history.next_attempt, saved + 1), checkpoint, complete)

    def _find(self) -> Checkpoint | None:
        if self._options.resume == "never":
            return None
        if self._options.resume == "auto":
            return checkpoint_folders.find_latest(self._folder)
        return checkpoint_folders.find_step(self._folder, self._options.resume)

    def _open_engine(self) -> Engine | None:
        """On the first process alone, which samples for all."""
        if self._settings.rollouts.engine == "vllm" and self._team.is_many:
            raise InvalidInput(
                "rollouts.engine: vLLM in the trainer's process cannot share it with other processes",
                reason="USAGE",
                remedy='Train in one process, or serve vLLM apart and name it with `engine = "openai"`.',
            )
        opened: list[Engine] = []
        self._team.share(lambda: opened.append(self._opening(self._settings, self._loaded)))
        return opened[0] if opened else None

    def _read_back(self, checkpoint: Checkpoint | None, policy: Policy) -> checkpoints.Restored | None:
        """Before anything is recorded: what is not whole, or another model's or run's, starts no attempt."""
        if checkpoint is None:
            return None
        saved = self._history.saved(checkpoint.attempt, checkpoint.step)  # known to the first process, which looks
        expected = None if saved is None else saved.digest
        restored = checkpoints.load(checkpoint.path, policy, seed=self._settings.run.seed, expected=expected)
        check_run(checkpoint, self._settings)
        return restored

    def _policy(self) -> tuple[Policy, Any]:
        """The policy, and the model that its KL is measured against: the RL start, before anything is read back."""
        model, reference = self._loaded.model, None
        if Objective(self._settings.algorithm).needs_reference:
            reference = self._team.shard(copy.deepcopy(model).requires_grad_(requires_grad=False))
        return Policy(self._team.shard(model), self._settings.algorithm, self._team), reference

    def _declare(
        self,
        beginning: Beginning,
        restored: checkpoints.Restored | None,
        provenance: Provenance,
        sets: Sequence[tuple[Data, TaskSet]],
        engine: Engine,
    ) -> None:
        """By the first process: what the run is, and that an attempt begins."""
        world_size, checkpoint = self._team.world_size, beginning.checkpoint
        provenance.declare(self._loaded, sets, engine, world_size=world_size, receipt=self._options.receipt)
        saved = None if checkpoint is None else self._known(checkpoint, provenance)
        self._history.begin(Begun(beginning.attempt, *((saved.attempt, saved.step) if saved else ())))
        resumed = {"step": saved.step, "attempt": saved.attempt, "digest": saved.digest} if saved else None
        provenance.begin(engine, self._loaded, world_size, resumed)
        self._tell(
            {
                "kind": "begin",
                "run_id": self._settings.run.id,
                "attempt": beginning.attempt,
                "from_step": beginning.step,
                "steps": self._settings.run.steps,
                "processes": world_size,
            }
        )
        if checkpoint is not None and restored is not None:
            self._tell_loaded(checkpoint, restored, provenance)

    def _tell_loaded(self, checkpoint: Checkpoint, restored: checkpoints.Restored, provenance: Provenance) -> None:
        provenance.loaded(checkpoint, restored.digest, restored.state, rng=restored.rng)
        if restored.state["config_digest"] != Config.of(self._settings.recorded()).digest:
            self._note(f"The settings are not those that {checkpoint.path.name} was saved with.")

    def _known(self, checkpoint: Checkpoint, provenance: Provenance) -> Saved:
        """The checkpoint as the history has it; else it is recorded now."""
        saved = self._history.saved(checkpoint.attempt, checkpoint.step)
        if saved is None:
            digest = provenance.saved(checkpoint.path, checkpoint_folders.read_state(checkpoint.path))
            saved = Saved(checkpoint.attempt, checkpoint.step, checkpoint.path.name, digest)
            self._history.save(saved)
        return saved

    def _finish(self, provenance: Provenance, recorder: Recorder) -> tuple[selections.Choice | None, Exported | None]:
        choice = self._team.share(lambda: self._select(provenance))
        self._team.share(lambda: self._complete(provenance))
        if choice is None or not self._settings.export.enabled:
            if self._settings.export.enabled:
                self._note("Nothing was selected, so nothing is exported.")
            return choice, None
        saved = choice.saved
        checkpoint = Checkpoint(checkpoint_folders.root(self._folder) / saved.folder, saved.step, saved.attempt)
        named = full_names(self._loaded.model)
        digest = checkpoints.load_weights(checkpoint.path, named, self._team, expected=saved.digest)
        weights = self._team.gather(named)
        exporter = Exporter(self._settings, self._loaded, recorder)
        to = self._folder / EXPORTS / saved.folder
        exported: list[Exported] = []
        self._team.share(
            lambda: exported.append(exporter.export(checkpoint, lambda: weights, to, route="in_trainer", before=digest))
        )
        return choice, exported[0] if exported else None

    def _select(self, provenance: Provenance) -> selections.Choice | None:
        if not self._settings.select.enabled:
            return None
        choice = selections.choose(self._history, self._settings.run.checkpoint_interval)
        if choice is not None:
            provenance.selected(choice)
            self._history.select(choice.saved)
        return choice

    def _complete(self, provenance: Provenance) -> None:
        provenance.complete()
        self._history.complete(self._settings.run.steps)

    def _outcome(
        self,
        beginning: Beginning,
        choice: selections.Choice | None,
        exported: Exported | None,
        report: Report | None,
    ) -> Outcome:
        return Outcome(
            run_id=self._settings.run.id,
            attempt=None if beginning.complete else beginning.attempt,
            from_step=beginning.step,
            last_step=max(beginning.step, self._settings.run.steps),
            checkpoints=str(checkpoint_folders.root(self._folder)),
            steps_saved=sorted({save.step for save in self._history.saves}),
            selected=None if choice is None else choice.to_dict(),
            export=None if exported is None else exported.to_dict(),
            recorded="" if report is None else str(report),
            refused=[] if report is None else [f"{one.type}: {one.message}" for one in report.refused],
        )

    def _note(self, text: str) -> None:
        self._tell({"kind": "note", "text": text})


def check_run(checkpoint: Checkpoint, settings: Settings) -> None:
    """Refuses a checkpoint of another run.

    Raises:
        InvalidInput: reason INVALID_FILE.
    """
    said = checkpoint_folders.read_state(checkpoint.path)["run_id"]
    if said != settings.run.id:
        raise checkpoint_folders.bad(checkpoint.path, f"it is of the run {said!r}, not {settings.run.id!r}")
