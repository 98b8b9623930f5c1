"""Where checkpoints lie, and whether one is whole. No torch here.

    {run.folder}/checkpoints/global_step_{N}/        N: the last update that is in it
        weights/  optimizer/  huggingface/  rng/  trainer_state.json
        manifest.json                                all other files with size and SHA-256; written last
    {run.folder}/checkpoints/global_step_{N}.attempt_{A}/    the same step, saved again by a later attempt
    {run.folder}/checkpoints/.saving-{N}-{...}/      a save that is not done, or never was: nobody loads it
    {run.folder}/checkpoints/latest.txt              a folder's name

A folder gets its name when it is whole and durable. Which one is the latest is told by the folders themselves: the file
that names it is written after them, and a crash may come between.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from ledger.client.recording.files import read_files
from ledger.client.recording.folders import sync_folder
from ledger.client.whole import whole
from ledger.core.errors import Broken, InvalidInput, LedgerError, NotFound, Problem

SCHEMA: Final = 1
MANIFEST: Final = "manifest.json"
STATE: Final = "trainer_state.json"
LATEST: Final = "latest.txt"
DCP_METADATA: Final = ".metadata"
PARTS: Final = ("weights", "optimizer")
_NAME: Final = re.compile(r"global_step_(\d+)(?:\.attempt_(\d+))?", re.ASCII)
_SAVING: Final = ".saving-"
_DELETING: Final = ".deleting-"
_STATE: Final[dict[str, type]] = {
    "run_id": str,
    "attempt": int,
    "step": int,
    "weight_version": int,
    "config_digest": str,
    "world_size": int,
    "algorithm": dict,
    "data": dict,
    "scheduler": dict,
}


@dataclass(frozen=True)
class Checkpoint:
    """A folder that has the name of one."""

    path: Path
    step: int
    attempt: int
    """As its name or its state says; one that says nothing is taken for the last attempt's, so that it is looked at."""


def root(folder: Path) -> Path:
    """Where the checkpoints of a run's folder lie."""
    return folder / "checkpoints"


def found(folder: Path) -> list[Checkpoint]:
    """The checkpoints of a run's folder that have their name, oldest first."""
    there = {path: _attempt(path) for path in _children(root(folder)) if _NAME.fullmatch(path.name)}
    last = max((attempt for attempt in there.values() if attempt is not None), default=1)
    made = [Checkpoint(path, _step(path), last if attempt is None else attempt) for path, attempt in there.items()]
    return sorted(made, key=lambda one: (one.attempt, one.step))


def leftovers(folder: Path) -> list[Path]:
    """What saves and deletions left behind that never came to an end."""
    return [path for path in _children(root(folder)) if path.name.startswith((_SAVING, _DELETING))]


def find_latest(folder: Path) -> Checkpoint | None:
    """The one that was saved last; None: there is none."""
    return max(found(folder), key=lambda one: (one.attempt, one.step), default=None)


def find_step(folder: Path, step: int) -> Checkpoint:
    """The checkpoint of a step, by the latest attempt that saved it.

    Raises:
        NotFound: there is none.
    """
    there = found(folder)
    alike = [one for one in there if one.step == step]
    if not alike:
        steps = ", ".join(map(str, sorted({one.step for one in there}))) or "none"
        raise NotFound(
            f"{root(folder)} holds no checkpoint of step {step}",
            remedy=f"Name a step that was saved: {steps}.",
            details={"folder": str(root(folder))},
        )
    return alike[-1]


def begin(folder: Path, step: int) -> Path:
    """A folder to save to: `finish` gives it its name."""
    path = root(folder) / f"{_SAVING}{step}-{uuid4().hex}"
    path.mkdir(parents=True)
    sync_folder(folder)  # the first save makes `checkpoints` in it
    return path


def finish(path: Path, folder: Path, step: int, attempt: int) -> Path:
    """Seals what was saved: the manifest, the name, and then the file that names the latest."""
    _write_manifest(path)
    for each in [path, *path.rglob("*")]:
        sync_folder(each)  # a file's content likewise
    final = root(folder) / f"global_step_{step}"
    if final.exists():
        final = root(folder) / f"global_step_{step}.attempt_{attempt}"
    if final.exists():
        raise LedgerError(
            f"{final} is there already",
            reason="CONDITION_FAILED",
            remedy="An attempt saves a step once: move that folder away.",
        )
    path.rename(final)
    sync_folder(root(folder))
    with whole(root(folder) / LATEST) as file:
        file.write(f"{final.name}\n".encode())
    return final


def delete(path: Path) -> None:
    """Removes a checkpoint. It loses its name first, so that a crash leaves nothing that looks like one."""
    gone = path.with_name(f"{_DELETING}{path.name}-{uuid4().hex}")
    path.rename(gone)
    shutil.rmtree(gone)


def write_json(path: Path, value: Any) -> None:
    """Writes one file of a checkpoint."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as file:
        file.write(json.dumps(value, indent=1, sort_keys=True).encode() + b"\n")


def read_state(path: Path) -> dict[str, Any]:
    """What a checkpoint's `trainer_state.json` says.

    Raises:
        InvalidInput: reason INVALID_FILE, if it is none.
    """
    state = _json(path / STATE, path)
    if state.get("schema_version") != SCHEMA:
        said = state.get("schema_version")
        raise bad(path, f"its {STATE} has the schema {said!r}, and this release reads schema {SCHEMA}")
    for key, kind in _STATE.items():
        if type(state.get(key)) is not kind:  # a bool is no number here
            raise bad(path, f"its {STATE} has no {key}" if key not in state else f"{key} in its {STATE} is wrong")
    return state


def verify(path: Path, *, expected: str | None = None) -> str:
    """Sees that a checkpoint has every file that it was saved with, and no other; gives its digest.

    Args:
        path: Its folder.
        expected: The digest that was recorded when it was saved, where there is one. A checkpoint that was put in
            another's place, manifest and all, is whole by itself: only this tells it apart.

    Raises:
        InvalidInput: reason INVALID_FILE, if it is no whole checkpoint, with all that is wrong.
        Broken: files have other bytes than were saved.
    """
    if path.name.startswith(_SAVING):
        raise bad(path, "the save of it never came to an end")
    listed = _listed(path)
    there = {p.relative_to(path).as_posix(): p for p in path.rglob("*") if p.is_file()}
    problems = [Problem(name, "is missing") for name in sorted(listed.keys() - there.keys())]
    problems += [Problem(name, "was not saved with it") for name in sorted(there.keys() - listed.keys() - {MANIFEST})]
    for name in sorted(listed.keys() & there.keys()):
        size = there[name].stat().st_size
        if size != listed[name]["size"]:
            problems.append(Problem(name, f"has {size:,} bytes, and was saved with {listed[name]['size']:,}"))
    problems += [
        Problem(f"{part}/{DCP_METADATA}", "is missing: a save of torch writes it last")
        for part in PARTS
        if f"{part}/{DCP_METADATA}" not in listed
    ]
    if problems:
        raise bad(path, f"{problems[0].place} {problems[0].message}", problems)
    digest = _verify_hashes(path, {name: entry["sha256"] for name, entry in listed.items()})
    _verify_name(path)
    if expected is not None and digest != expected:
        raise Broken(
            f"{path} is whole, but not what was recorded when it was saved: its digest was {expected[:12]}, "
            f"and is {digest[:12]}",
            remedy="Put the files back that were saved, or name another step.",
            details={"folder": str(path), "recorded": expected, "found": digest},
        )
    return digest


def bad(path: Path, why: str, problems: list[Problem] | None = None) -> InvalidInput:
    return InvalidInput(
        f"{path} is no checkpoint to go on from: {why}",
        reason="INVALID_FILE",
        remedy="Name another step with --resume, or begin anew with --resume never.",
        details={"folder": str(path)},
        problems=problems or [],
    )


def _verify_hashes(path: Path, saved: dict[str, str]) -> str:
    """Compares each file's; gives the one over all of them."""
    found = read_files(path)
    now = {file.path: file.sha256 for file in found.files}
    changed = [Problem(name, "has other bytes than were saved") for name in sorted(saved) if now[name] != saved[name]]
    if changed:
        raise Broken(
            f"{path} is not what was saved: {changed[0].place} {changed[0].message}",
            remedy="Name another step with --resume.",
            details={"folder": str(path)},
            problems=changed,
        )
    return found.digest


def _verify_name(path: Path) -> None:
    """A folder that was renamed would be trained on under another step's number."""
    state, match = read_state(path), _NAME.fullmatch(path.name)
    if match is None:
        return
    for what, named in (("step", match[1]), ("attempt", match[2])):
        if named is not None and int(named) != state[what]:
            raise bad(path, f"it is named after {what} {int(named)}, and its {STATE} says {what} {state[what]}")


def _listed(path: Path) -> dict[str, dict[str, Any]]:
    manifest = _json(path / MANIFEST, path)
    try:
        if manifest["schema_version"] != SCHEMA:
            raise bad(path, f"its {MANIFEST} has the schema {manifest['schema_version']!r}")
        return {
            str(entry["path"]): {"size": int(entry["size"]), "sha256": str(entry["sha256"])}
            for entry in manifest["files"]
        }
    except (KeyError, TypeError, ValueError):
        raise bad(path, f"its {MANIFEST} names no files with their sizes and digests") from None


def _write_manifest(path: Path) -> None:
    files = [file.model_dump(mode="json") for file in read_files(path).files]
    write_json(path / MANIFEST, {"schema_version": SCHEMA, "files": files})


def _step(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1])


def _attempt(path: Path) -> int | None:
    """A folder whose state cannot be read is refused when it is loaded, and not when others are looked for."""
    match = _NAME.fullmatch(path.name)
    if match is not None and match[2]:
        return int(match[2])
    try:
        return int(read_state(path)["attempt"])
    except (LedgerError, TypeError, ValueError):
        return None


def _json(file: Path, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_bytes())
    except OSError as error:
        raise bad(path, f"{file.name}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise bad(path, f"{file.name} is no JSON") from None
    if not isinstance(value, dict):
        raise bad(path, f"{file.name} is no JSON object")
    return value


def _children(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []
