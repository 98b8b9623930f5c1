"""Declaring a run with what is imported of it, when somebody asks for it: an import knows no sources and no base."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ledger.client import faults
from ledger.core import strictjson
from ledger.core.errors import InvalidInput
from ledger.events.runs import RunDeclared
from services.adapters.backfill.books import unfit
from services.adapters.backfill.imports import Import


@dataclass(frozen=True)
class Declaration:
    """What was given to declare the run with; nothing of it: the run is not declared."""

    run_id: str
    file: Path | None = None
    campaign_id: str | None = None
    atlas_ids: tuple[str, ...] = ()

    @property
    def is_asked_for(self) -> bool:
        return self.file is not None or self.campaign_id is not None or bool(self.atlas_ids)


def declare(found: Import, given: Declaration) -> None:
    """Adds `run.declared` to an import, as far as it was asked for.

    Raises:
        InvalidInput: reason INVALID_FILE, if the file is no declaration of this run.
    """
    if not given.is_asked_for:
        return
    said = _said(given)
    try:
        payload = RunDeclared.model_validate_json(strictjson.dumps(said))
    except ValidationError as error:
        raise unfit("The declaration" if given.file is None else str(given.file), error) from None
    found.book.add("run.declared", f"run/{given.run_id}", payload, place=[])


def _said(given: Declaration) -> dict[str, Any]:
    said: dict[str, Any] = _read(given.file) if given.file is not None else {"rl_start": None}
    if said.setdefault("run_id", given.run_id) != given.run_id:
        raise InvalidInput(
            f"{given.file} declares the run {said['run_id']!r}, not {given.run_id!r}",
            reason="INVALID_FILE",
            remedy="Give the run's own id as --run, or leave run_id out of the file.",
        )
    if given.campaign_id is not None:
        said["campaign_id"] = given.campaign_id
    sources = said.setdefault("sources", [])
    if isinstance(sources, list):
        named = {s.get("atlas_id") for s in sources if isinstance(s, dict)}
        # Of a source that is only named by its Atlas id, the dataset's own name is not known.
        sources += [{"atlas_id": i, "dataset_id": i} for i in dict.fromkeys(given.atlas_ids) if i not in named]
    said.setdefault("basis", {"kind": "claimed", "note": "Declared with an import, by whoever imported."})
    return said


def _read(path: Path) -> dict[str, Any]:
    try:
        said = strictjson.parse(path.read_bytes())
    except OSError as error:
        raise faults.unreadable(path, error) from None
    except InvalidInput as error:
        raise faults.refused(path, "declaration", error.problems, remedy="Mend the JSON.") from None
    if not isinstance(said, dict):
        raise InvalidInput(f"{path} is no JSON object", reason="INVALID_FILE", remedy="Give run.declared's payload.")
    return said
