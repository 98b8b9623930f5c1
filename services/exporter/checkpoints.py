"""A checkpoint's folder: where its weights are, which step they are of, whose run, and the digest that is its identity.

    CHECKPOINT/                      any folder; the trainer's is named global_step_{N}
        weights/ policy/ model/      one of them holds the save, or the folder itself does
        huggingface/                 configuration and tokenizer; also inside the part that holds the save
        trainer_state.json           of the product's own trainer: run, attempt and step
        manifest.json                of the same: every other file; a folder without it was never finished

A folder's name is a label, and may be one more than the last update in its weights. What the trainer's state says is
taken over the name, and where the two differ the user has to say which it is. Where there is only the name, the user
may say another step, and is told.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ledger.client.recording.files import Files, read_files
from ledger.core.errors import Broken, InvalidInput, LedgerError, Problem
from ledger.core.strictjson import MAX_INT
from services.exporter.pickles import METADATA

STATE: Final = "trainer_state.json"
MANIFEST: Final = "manifest.json"
PARTS: Final = ("weights", "policy", "model")
HUGGINGFACE: Final = "huggingface"
SCHEMA: Final = 1
_STEP: Final = re.compile(r"global_step_(\d{1,18})(?:\.attempt_\d+)?", re.ASCII)
_UNFINISHED: Final = (".saving-", ".deleting-")
_SHARDS: Final = "model_world_size_*_rank_*.pt"


@dataclass(frozen=True)
class Source:
    """A checkpoint that is there and whole, as far as its folder says."""

    folder: Path
    save: Path
    """The folder of the save of its weights."""
    side: Path | None
    """The folder with its configuration and tokenizer."""
    files: Files
    run_id: str | None
    attempt: int | None
    step: int | None
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        return self.files.digest


def read_source(folder: Path, *, step: int | None = None) -> Source:
    """Looks at a checkpoint, and reads its files once for their digests.

    Args:
        folder: Where it is.
        step: Which step it is, said by the user: needed where its state and its name differ, or neither says.

    Raises:
        InvalidInput: reason INVALID_FILE, if it is none, or unfinished; USAGE, if its step is not what was said.
        Broken: its files are not those that it was saved with.
        LedgerError: reason NOT_SUPPORTED, if its weights are pickles.
    """
    folder = folder.absolute()
    if not folder.is_dir():
        raise _bad(folder, "there is no such folder")
    if folder.name.startswith(_UNFINISHED):
        raise _bad(folder, "its save was never finished")
    save = _save(folder)
    state = _state(folder)
    if state is not None and not (folder / MANIFEST).is_file():
        raise _bad(folder, f"it has no {MANIFEST}, which is written last: its save was never finished")
    files = read_files(folder)
    if state is not None:
        _check_manifest(folder, files)
    at, notes = _step(folder, state, step)
    side = [path for path in (folder / HUGGINGFACE, save / HUGGINGFACE) if path.is_dir()]
    return Source(
        folder=folder,
        save=save,
        side=side[0] if side else None,
        files=files,
        run_id=_text(state, "run_id"),
        attempt=_count(state, "attempt"),
        step=at,
        notes=notes,
    )


def _save(folder: Path) -> Path:
    places = [path for path in (folder, *(folder / part for part in PARTS)) if (path / METADATA).is_file()]
    if len(places) == 1:
        return places[0]
    if places:
        named = ", ".join(str(path.relative_to(folder)) for path in places)
        raise _bad(folder, f"it holds several saves ({named})", "Name the folder of the one that holds the weights.")
    parts = [path for path in (folder, *(folder / part for part in PARTS)) if path.is_dir()]
    if any(next(path.glob("*.distcp"), None) for path in parts):
        raise _bad(folder, f"its save has no {METADATA}, which is written last: it was never finished")
    if any(next(path.glob(_SHARDS), None) for path in parts):
        raise LedgerError(
            f"{folder} holds the shards of an FSDP trainer, which are pickles of whole objects",
            reason="NOT_SUPPORTED",
            remedy="Consolidate them with the trainer's own script, or export with the trainer itself.",
            details={"folder": str(folder)},
        )
    raise _bad(folder, f"there is no {METADATA} in it, nor in {', '.join(PARTS)}")


def _state(folder: Path) -> dict[str, Any] | None:
    """What the product's own trainer says; another program's file of the same name says nothing here."""
    path = folder / STATE
    if not path.is_file():
        return None
    try:
        said = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise _bad(folder, f"its {STATE} cannot be read") from None
    if not isinstance(said, dict) or not {"schema_version", "run_id", "step"} <= said.keys():
        return None
    if said["schema_version"] != SCHEMA:
        raise _bad(folder, f"its {STATE} has the schema {said['schema_version']!r}, and this release reads {SCHEMA}")
    return said


def _check_manifest(folder: Path, files: Files) -> None:
    try:
        entries = json.loads((folder / MANIFEST).read_bytes())["files"]
        saved = {str(entry["path"]): str(entry["sha256"]) for entry in entries}
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        raise _bad(folder, f"its {MANIFEST} names no files") from None
    there = {file.path: file.sha256 for file in files.files if file.path != MANIFEST}
    problems = [Problem(name, "is missing") for name in sorted(saved.keys() - there.keys())]
    problems += [Problem(name, "was not saved with it") for name in sorted(there.keys() - saved.keys())]
    shared = sorted(saved.keys() & there.keys())
    problems += [Problem(name, "has other bytes than were saved") for name in shared if saved[name] != there[name]]
    if problems:
        raise Broken(
            f"{folder} is not what was saved: {problems[0].place} {problems[0].message}",
            remedy="Name another checkpoint.",
            details={"folder": str(folder)},
            problems=problems,
        )


def _step(folder: Path, state: dict[str, Any] | None, asked: int | None) -> tuple[int | None, tuple[str, ...]]:
    """The step, and what has to be told of it."""
    match = _STEP.fullmatch(folder.name) or (_STEP.fullmatch(folder.parent.name) if folder.name in PARTS else None)
    known = {STATE: _count(state, "step"), "the folder's name": int(match[1]) if match else None}
    said = {where: step for where, step in known.items() if step is not None}
    told = " and ".join(f"{where} says {step}" for where, step in said.items())
    if asked is not None:
        if state is not None and said and asked not in said.values():
            raise _wrong_step(folder, f"--step says {asked}, and {told}")
        return asked, (f"{told}; it is exported as step {asked}, as --step says.",) if {*said.values()} - {
            asked
        } else ()
    if len({*said.values()}) > 1:
        raise _wrong_step(folder, told)
    return next(iter(said.values()), None), ()


def _text(state: dict[str, Any] | None, name: str) -> str | None:
    value = (state or {}).get(name)
    return value if isinstance(value, str) and value else None


def _count(state: dict[str, Any] | None, name: str) -> int | None:
    value = (state or {}).get(name)
    return value if type(value) is int and 0 <= value <= MAX_INT else None


def _wrong_step(folder: Path, told: str) -> InvalidInput:
    return InvalidInput(
        f"{folder}: which step it is, is not clear: {told}",
        reason="USAGE",
        remedy="Say with --step which of them is in its weights; it must be one that the checkpoint names.",
        details={"folder": str(folder)},
    )


def _bad(folder: Path, why: str, remedy: str = "Name the folder of a checkpoint that was saved whole.") -> InvalidInput:
    return InvalidInput(
        f"{folder} cannot be exported: {why}",
        reason="INVALID_FILE",
        remedy=remedy,
        details={"folder": str(folder)},
    )
