"""A folder of SkyRL checkpoints into events: which are whole, and what lies in them. Nothing is unpickled.

    latest_ckpt_global_step.txt      written last of all
    global_step_N/  policy/ critic/  trainer_state.pt  data.pt …

A checkpoint is committed if its weights are whole (a DCP has its `.metadata`, which is written last; FSDP has a file
for every rank), its trainer's state is there, and it is not ahead of the latest one. What is not is the trace of a save
that failed. A label may be one more than the last update in the weights: the save after the loop counts on too far.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ledger.client.drafts import Actor
from ledger.client.recording.files import Files, digest_of, read_files
from ledger.core.errors import InvalidInput
from ledger.events.checkpoints import CheckpointCommitted, CheckpointFormat, CheckpointSaveStarted, Contents
from services.adapters.backfill.accounts import Account
from services.adapters.backfill.books import Book
from services.adapters.backfill.documents import Document
from services.adapters.backfill.imports import Import

LATEST: Final = "latest_ckpt_global_step.txt"
_FOLDER: Final = re.compile(r"global_step_(\d{1,15})", re.ASCII)
_RANKED: Final = re.compile(r"(model|optim|extra_state)_world_size_(\d{1,6})_rank_(\d{1,6})\.pt", re.ASCII)


@dataclass(frozen=True)
class Save:
    """One checkpoint's folder, as it lies there."""

    step: int
    folder: Path
    format: CheckpointFormat
    world_size: int | None
    contents: Contents
    fault: str | None
    """Why it is not whole; None: it is."""


def plan_checkpoints(
    folder: Path, *, run_id: str, by: Actor, attempt: int | None = None, last_step: int | None = None
) -> Import:
    """Reads and hashes the checkpoints of a run.

    Args:
        folder: The one that holds the `global_step_N` folders.
        run_id: Whose they are.
        by: Who says it.
        attempt: Which attempt saved them; None: not known.
        last_step: The last update that the run made, by which the last label's count can be judged.

    Raises:
        InvalidInput: reason NO_ROWS, if there is no checkpoint; or INVALID_FILE, if one cannot be read.
    """
    account = Account()
    book = Book(by)
    saves = [_save(step, path) for step, path in _folders(folder)]
    if not saves:
        raise InvalidInput(
            f"{folder} holds no checkpoint",
            reason="NO_ROWS",
            remedy="Name the folder that holds the folders global_step_N. Nothing was appended.",
        )
    saver = _Saver(run_id, attempt, last_step, book, account, {})
    latest = _latest(folder, account)
    for save in saves:
        ahead = latest is not None and save.step > latest
        fault = save.fault or (f"it is ahead of {LATEST}, which says {latest}" if ahead else None)
        if fault is None:
            saver.commit(save)
        else:
            saver.start(save, fault)
    return Import(f"run/{run_id}", book, account)


def _folders(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is no folder", reason="INVALID_FILE", remedy="Name the folder of checkpoints.")
    found = [(match, path) for path in folder.iterdir() if (match := _FOLDER.fullmatch(path.name))]
    return sorted((int(match[1]), path) for match, path in found if path.is_dir() and not path.is_symlink())


def _latest(folder: Path, account: Account) -> int | None:
    path = folder / LATEST
    if not path.is_file():
        account.note(f"There is no {LATEST}: nothing says which save was the last to be finished.")
        return None
    with path.open("rb") as file:
        text = file.read(64).strip()
    if not text.isdigit() or len(text) > 15:
        account.unreadable(LATEST, "no number")
        return None
    return int(text)


def _save(step: int, folder: Path) -> Save:
    names = {p.relative_to(folder / "policy").as_posix() for p in _below(folder / "policy")}
    sharded = any(name.endswith(".distcp") for name in names)
    ranks = [m for name in names if (m := _RANKED.fullmatch(name))]
    state = (folder / "trainer_state.pt").is_file()
    if sharded or ".metadata" in names:
        fault = _dcp_fault(names)
        kind: CheckpointFormat = "megatron_torch_dist" if "common.pt" in names else "torch_dcp"
        world, optimizer = None, None
    else:
        fault = _fsdp_fault(ranks)
        kind = "fsdp_shards" if ranks else "other"
        world = int(ranks[0][2]) if ranks else None
        optimizer = any(m[1] == "optim" for m in ranks)
    extra = any(m[1] == "extra_state" for m in ranks) if ranks else None
    contents = Contents(
        weights=fault is None,
        optimizer=optimizer,
        scheduler=extra,
        rng=extra,
        data_state=any(
            (folder / n).is_file() for n in ("data.pt", "data_consumption_state.pt", "fully_async_state.pt")
        ),
    )
    fault = fault or (None if state else "it has no trainer_state.pt")
    return Save(step, folder, kind, world, contents, fault)


def _below(folder: Path) -> Iterator[Path]:
    return (p for p in folder.rglob("*") if p.is_file()) if folder.is_dir() else iter(())


def _dcp_fault(names: set[str]) -> str | None:
    if ".metadata" not in names:
        return "its weights have no .metadata, which is written last"
    return None if any(name.endswith(".distcp") for name in names) else "its weights have .metadata and no shards"


def _fsdp_fault(ranks: list[re.Match[str]]) -> str | None:
    """A file of the model for every rank of one world."""
    worlds = {int(m[2]) for m in ranks}
    if not worlds:
        return "it has no weights that are known"
    if len(worlds) > 1:
        return f"its shards are of worlds of {', '.join(map(str, sorted(worlds)))} ranks"
    (world,) = worlds
    missing = sorted(set(range(world)) - {int(m[3]) for m in ranks if m[1] == "model"})
    return f"its weights lack rank {missing[0]} of {world} ({len(missing)} in all)" if missing else None


@dataclass(frozen=True)
class _Saver:
    """Makes the events of one run's checkpoints."""

    run_id: str
    attempt: int | None
    last_step: int | None
    book: Book
    account: Account
    weights: dict[str, int]
    """The steps whose weights were seen, by their digest."""

    def commit(self, save: Save) -> None:
        found = read_files(save.folder)
        self._compare_weights(save, found)
        document = _document(save, found)
        self.account.documents.append(document)
        self.account.saw_step(save.step)
        last = self.last_step if self.last_step is not None and save.step == self.last_step + 1 else None
        note = f"Labelled {save.step} by a save after the loop, which counts on: it holds the weights after {last}."
        said = CheckpointCommitted.model_validate(
            {
                **found.as_fields(),
                "run_id": self.run_id,
                "attempt": self.attempt,
                "step": save.step,
                "last_update": last,
                "format": save.format,
                "world_size": save.world_size,
                "contents": save.contents,
                "basis": document.basis(None if last is None else note),
            }
        )
        place = [self.attempt, save.step]
        self.book.add("checkpoint.committed", f"run/{self.run_id}", said, place=place, says=found.digest)

    def _compare_weights(self, save: Save, found: Files) -> None:
        """Two steps that hold the same weights claim one checkpoint: one of the labels is wrong."""
        policy = digest_of(f for f in found.files if f.path.startswith("policy/"))
        other = self.weights.setdefault(policy, save.step)
        if other != save.step:
            self.account.note(f"The checkpoints {other} and {save.step} hold the same weights: one label is wrong.")

    def start(self, save: Save, fault: str) -> None:
        """Tells of a save that was not finished; whose it was must be known to record it."""
        self.account.unreadable(save.folder.name, fault)
        if self.attempt is None:
            self.account.left_out["saves that were not finished: of which attempt is not known (--attempt)"] += 1
            return
        said = CheckpointSaveStarted(run_id=self.run_id, attempt=self.attempt, step=save.step)
        self.book.add("checkpoint.save_started", f"run/{self.run_id}", said, place=[self.attempt, save.step])


def _document(save: Save, found: Files) -> Document:
    return Document(Path(save.folder.name), found.digest, found.total_bytes)
