"""A job's folder, watched while its trials run: each is told once, also by a watcher that starts again.

What was told is remembered in a file, a line a trial, by the ids of the results. It is written after the trial was
recorded: a crash between the two tells a trial twice and never loses one. A result that is half written is waited for;
what is still no result when the job is over is told of. Archives that a trainer packs its trials into give their step.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from ledger.client.recording import Recorder, folders
from ledger.core.errors import InvalidInput
from services.adapters.backfill import metrics
from services.adapters.backfill.accounts import Account
from services.adapters.backfill.harbor_jobs import Treatments
from services.adapters.backfill.harbor_models import JobResult
from services.adapters.backfill.harbor_trials import MAX_FILE, FoundTrial, archive_trials, archives
from services.adapters.harbor.trials import RESULT, Ask, Known, tell, trial_of
from services.adapters.shields import Shield

EVERY_SECONDS: Final = 2.0


def watch(
    job: Path,
    recorder: Recorder,
    *,
    known: Ask | None = None,
    treatments: Treatments | None = None,
    memory: Path | None = None,
    every: float = EVERY_SECONDS,
    stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Looks at a job's folder until the job is over, or it is stopped; gives how many trials were told.

    Args:
        job: The folder that holds the trials'. It need not be there yet.
        recorder: The run's.
        known: Asked when a trial's folder is first seen for what the trial does not know itself.
        treatments: What the trainer does with each exception.
        memory: The file that remembers what was told; by default one a run and job in the user's state folder.
        every: Seconds from one look to the next.
        stopped: Asked after each look.
    """
    watcher = Watcher(job, recorder, known=known, treatments=treatments, memory=memory)
    count = 0
    while True:
        is_over = watcher.is_over()  # asked before looking: what was there at its end is seen
        count += watcher.look()
        if is_over:
            watcher.close()
        if is_over or stopped():
            return count
        time.sleep(every)


class Watcher:
    """The looks at one job's folder. See `watch` for the arguments."""

    def __init__(
        self,
        job: Path,
        recorder: Recorder,
        *,
        known: Ask | None = None,
        treatments: Treatments | None = None,
        memory: Path | None = None,
    ) -> None:
        self._job = job
        self._recorder = recorder
        self._ask = known
        self._treatments = treatments
        self._shield = Shield(recorder, f"trials of run {recorder.run}")
        self._memory = memory or _default_memory(recorder.run, job)
        self._told = self._remembered()
        self._known: dict[str, Known] = {}
        """What is known of each trial whose folder was seen."""
        self._read: dict[str, tuple[int, int]] = {}
        """Of each trial that was read to its end: its result's time and size."""
        self._unfinished: set[str] = set()
        self._packed: set[Path] = set()
        """Archives that were read."""

    def look(self) -> int:
        """Tells the trials that finished since the last look; gives how many."""
        return self._shield(self._look) or 0

    def is_over(self) -> bool:
        """Whether the job's own result says so."""
        path = self._job / RESULT
        try:
            if path.is_symlink():
                return False
            return JobResult.model_validate(metrics.loads(path.read_text())).finished_at is not None
        except (OSError, ValueError):  # not there, or half written
            return False

    def close(self) -> None:
        """Tells how many trials started and never came to a result, once the job is over."""
        left = {_key([name, "unfinished"]): name for name in sorted(self._unfinished)}
        new = [key for key in left if key not in self._told]
        if new:
            self._shield(self._recorder.rollouts, started=len(new), finished=0, verified=0)
            self._shield(self._remember, new)
            self._shield.warn("unfinished", f"{len(new)} trials have no result, {left[new[0]]} among them")

    def _look(self) -> int:
        if not self._job.is_dir():
            return 0
        self._unfinished = set()
        found = {folder.name: new for folder in _trial_folders(self._job) if (new := self._finished(folder))}
        count = self._tell([(trial, self._known[name]) for name, (trial, _) in found.items()])
        self._read.update({name: mark for name, (_, mark) in found.items()})
        for step, path in archives(self._job):
            count += self._unpack(step, path)
        return count

    def _finished(self, folder: Path) -> tuple[FoundTrial, tuple[int, int]] | None:
        """A trial that finished since it was last read, and by what its result is known again."""
        name, mark = folder.name, _mark(folder / RESULT)
        if name not in self._known:
            self._known[name] = self._known_of(folder, is_running=mark is None)
        if mark is not None and self._read.get(name) == mark:
            return None
        trial = None if mark is None else _read(folder)
        if mark is None or trial is None or not trial.finished:  # it runs, or its result is half written
            self._unfinished.add(name)
            return None
        return trial, mark

    def _unpack(self, step: int, path: Path) -> int:
        """The trials of an archive that were not told before it was packed."""
        if path in self._packed:
            return 0
        try:
            trials = list(archive_trials(path, Account()))
        except InvalidInput:  # it is still being written, or damaged
            self._shield.warn(path.name, f"{path.name} cannot be read yet")
            return 0
        self._packed.add(path)
        return self._tell([(t, Known(step=step)) for t in trials if t.finished])

    def _known_of(self, folder: Path, *, is_running: bool) -> Known:
        if self._ask is None or not is_running:
            return Known()  # it ran before it was seen: with which weights nobody can say now
        task = folder.name.rpartition("__")[0]  # as the runner makes a trial's name, the task's cut short
        return self._shield(self._ask, folder.name, task or folder.name) or Known()

    def _tell(self, finished: Iterable[tuple[FoundTrial, Known]]) -> int:
        new = [(trial, known) for trial, known in finished if _trial_key(trial) not in self._told]
        if new:
            tell(self._recorder, new, self._treatments)
            self._remember([_trial_key(trial) for trial, _ in new])
        return len(new)

    def _remembered(self) -> set[str]:
        return set(self._memory.read_text(encoding="utf-8").splitlines()) if self._memory.is_file() else set()

    def _remember(self, keys: list[str]) -> None:
        self._told.update(keys)
        self._memory.parent.mkdir(parents=True, exist_ok=True)
        with self._memory.open("a", encoding="utf-8") as file:
            file.writelines(f"{key}\n" for key in keys)
            file.flush()
            os.fsync(file.fileno())


def _trial_key(trial: FoundTrial) -> str:
    """What a trial is remembered by: a retry takes its folder, and has an id of its own."""
    result = trial.result
    return _key([trial.name, result.id if result else None, result.finished_at if result else None])


def _key(said: list[str | None]) -> str:
    return hashlib.sha256(repr(said).encode("utf-8", "backslashreplace")).hexdigest()


def _trial_folders(job: Path) -> Iterator[Path]:
    """The folders of trials in a job's. Links are not followed."""
    for folder in sorted(job.iterdir()):
        if not folder.is_symlink() and any((folder / name).is_file() for name in (RESULT, "config.json")):
            yield folder


def _mark(result: Path) -> tuple[int, int] | None:
    """By what a result that was read is known again; None: it is not there, or too large to be read."""
    if result.is_symlink() or not result.is_file():
        return None
    stat = result.stat()
    return (stat.st_mtime_ns, stat.st_size) if stat.st_size <= MAX_FILE else None


def _read(folder: Path) -> FoundTrial | None:
    """The trial by its result; None: it is gone again, as before a retry."""
    try:
        return trial_of(folder.name, (folder / RESULT).read_bytes())
    except OSError:
        return None


def _default_memory(run: str, job: Path) -> Path:
    name = hashlib.sha256(run.encode() + b"\0" + os.fsencode(job.absolute())).hexdigest()[:32]
    return folders.default_root().with_name("trials") / name
