"""A run from its settings to its end: what `ledger train` does, in each of its processes.

    outcome = run(read_settings(path), Options(), tell=print)

However an attempt ends, the ledger is told: an exception is a failure, SIGTERM and an interrupt are a cancellation, and
a process that is killed leaves an attempt without an end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import torch

from ledger.client.recording import folders
from ledger.core.errors import InvalidInput, Refused
from services.trainer import checkpoint_folders, checkpoints, models
from services.trainer.attempts import Attempt, Opening, check_run
from services.trainer.distributed import Team, local_rank
from services.trainer.exporting import Exported, Exporter
from services.trainer.histories import History
from services.trainer.options import Options, Outcome
from services.trainer.provenance import open_recorder
from services.trainer.rollouts.opening import open_engine
from services.trainer.settings import Settings
from services.trainer.stopping import terminable
from services.trainer.training import Tell

LOCK: Final = "trainer"


def run(settings: Settings, options: Options, *, tell: Tell, opening: Opening = open_engine) -> Outcome:
    """Trains, in this process and those that its launcher's environment names.

    Raises:
        LedgerError: what the settings, the files or the engine have against it.
        KeyboardInterrupt: it was told to stop.
    """
    models.require()
    with ExitStack() as stack:
        stack.enter_context(terminable())
        stack.enter_context(_computing(settings))
        loaded = models.load(settings.model)
        team = Team.join(loaded.device)
        stack.callback(team.close)
        lock = folders.Lock(settings.run.folder, LOCK)
        stack.callback(lock.release)
        team.share(lambda: _take(lock, settings.run.folder))
        tell = tell if team.is_first else _say_nothing
        return Attempt(settings, options, tell, team, loaded, opening=opening).run()


def export_only(settings: Settings, step: int, to: str | Path, options: Options) -> tuple[Exported, str]:
    """Exports a checkpoint by the trainer itself, in a job of its own, with no update: the route `rerun`.

    Gives what was exported, and what the recorder reports.

    Raises:
        NotFound: there is no checkpoint of that step.
        LedgerError: it is not whole, of another model, or the place cannot be written.
    """
    models.require()
    with terminable(), _computing(settings):
        checkpoint = checkpoint_folders.find_step(settings.run.folder, step)
        saved = History(settings.run.folder).saved(checkpoint.attempt, checkpoint.step)
        digest = checkpoint_folders.verify(checkpoint.path, expected=None if saved is None else saved.digest)
        check_run(checkpoint, settings)
        loaded = models.load(settings.model)
        team = Team(loaded.device)

        def load() -> Mapping[str, torch.Tensor]:
            named = models.full_names(loaded.model)
            checkpoints.load_verified_weights(checkpoint.path, named, team)
            return team.gather(named)

        recorder = open_recorder(settings, options.address, max(1, checkpoint.attempt), by=options.by)
        try:
            exported = Exporter(settings, loaded, recorder).export(checkpoint, load, to, route="rerun", before=digest)
        finally:
            report = recorder.close()
        return exported, str(report)


def _take(lock: folders.Lock, folder: Path) -> None:
    """Two trainers in one folder would overwrite one another's history."""
    folder.mkdir(parents=True, exist_ok=True)
    if not lock.take():
        raise Refused(
            f"another trainer works in {folder}",
            reason="IN_USE",
            remedy="Wait until it ends, or give this run a folder of its own.",
            details={"folder": str(folder)},
        )


@contextmanager
def _computing(settings: Settings) -> Iterator[None]:
    """Torch as the settings want it, and afterwards as it was."""
    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    if settings.run.threads:
        torch.set_num_threads(settings.run.threads)
    if torch.cuda.is_available() and "LOCAL_RANK" in os.environ and settings.model.device in {"auto", "cuda"}:
        _take_gpu(local_rank(), torch.cuda.device_count())
    if settings.run.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it CUDA's products are refused
        torch.use_deterministic_algorithms(mode=True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(mode=deterministic, warn_only=warns)


def _take_gpu(number: int, count: int) -> None:
    if number >= count:
        raise InvalidInput(
            f"process {number} of this machine has no GPU of its own: there are {count}",
            reason="USAGE",
            remedy=f'Start {count} processes at most, or write `model.device = "cpu"`.',
        )
    torch.cuda.set_device(number)


def _say_nothing(told: Mapping[str, Any]) -> None:
    """What the first process tells, the others do not repeat."""
