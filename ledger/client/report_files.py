"""A difficulty report's file: read once, judged field by field, each problem at "FILE#/json/pointer"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from ledger.client import faults
from ledger.client.drafts import Upload
from ledger.client.evidence import upload_of
from ledger.core import strictjson
from ledger.core.errors import InvalidInput, Problem
from ledger.core.ids import sha256_hex
from ledger.core.strictjson import pointer
from ledger.events.fields import ArtifactRef
from ledger.events.wording import words

Model = TypeVar("Model", bound=BaseModel)
Place = tuple[object, ...]

_ORDERED: Final = (("solved", "verified"), ("verified", "attempted"), ("unverified", "attempted"))
"""What the first of each pair counts is among what the second counts."""
_NAMES_IN_FILE: Final = MappingProxyType({"followup_id": "id"})


class ReportFile:
    """A JSON file, read once, and what is found wrong with it on the way."""

    def __init__(self, path: Path, what: str = "difficulty report") -> None:
        self.what = what
        self.path = path
        self.problems: list[Problem] = []
        try:
            content = path.read_bytes()
            self.raw = strictjson.parse(content)
        except OSError as error:
            raise faults.unreadable(path, error) from None
        except InvalidInput as error:
            raise self.refused(error.problems) from None
        if not isinstance(self.raw, dict):
            raise self.refused([Problem("", "not a JSON object")])
        self.upload = Upload(sha256_hex(content), len(content), content)

    def refused(self, problems: Iterable[Problem] | None = None) -> InvalidInput:
        """The refusal of the file, for these problems or for those noted."""
        return faults.refused(
            self.path,
            self.what,
            [Problem(f"{self.path}#{p.place}", p.message) for p in (self.problems if problems is None else problems)],
            remedy="Correct the fields named; a rate that is not finite is written as a string. Nothing was published.",
        )

    def note(self, place: str, message: str) -> None:
        """Notes a problem; one a place, since the alternatives of a union each complain of the same value."""
        if all(p.place != place for p in self.problems):
            self.problems.append(Problem(place, message))

    def read(self, model: type[Model], picked: Mapping[str, Any], at: Place) -> Model | None:
        """The model, or None with its problems noted."""
        try:
            return model.model_validate(picked)
        except ValidationError as error:
            for fault in error.errors(include_url=False, include_input=False):
                place = pointer(*at, *_held(fault["loc"], picked, missing=fault["type"] == "missing"))
                self.note(place, words(fault))
        return None

    def beside(self, name: Any, at: Place) -> tuple[ArtifactRef, Upload] | None:
        """The file of that name under the report's folder, if there is one."""
        if name is None:
            return None
        if not isinstance(name, str) or "\\" in name or name.startswith("/") or ".." in PurePosixPath(name).parts:
            self.note(pointer(*at), "not a path under the report's folder")
            return None
        folder = self.path.parent.resolve()
        path = (folder / name).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            return None
        try:
            upload = upload_of(path)
        except InvalidInput as error:
            self.note(pointer(*at), error.message)
            return None
        return cited(name, upload), upload


def cited(name: str, upload: Upload) -> ArtifactRef:
    """How an event names a file of the report's folder."""
    return ArtifactRef(name=name, sha256=upload.sha256, size=upload.size, media_type="application/json")


def known(value: Any, model: type[BaseModel]) -> Any:
    """The members that the model has a field for. A null where it has a default says as little as an absent key.

    Whatever is no object is left to the model to refuse.
    """
    if not isinstance(value, dict):
        return value
    fields = model.model_fields
    return {k: v for k, v in value.items() if k in fields and (v is not None or fields[k].is_required())}


def check_counts(file: ReportFile, model: Any, at: Place) -> None:
    """Notes counts that contradict each other; nothing is recomputed."""
    if not isinstance(model, dict):
        return
    for smaller, larger in _ORDERED:
        few, many = model.get(smaller), model.get(larger)
        if type(few) is int and type(many) is int and few > many:
            file.note(pointer(*at, smaller), f"{few} {smaller} are more than {many} {larger}")
    interval = model.get("wilson_95")
    if isinstance(interval, list) and len(interval) != 2:
        file.note(pointer(*at, "wilson_95"), "an interval has two ends")


def _held(loc: Iterable[Any], value: Any, *, missing: bool) -> Iterator[object]:
    """The parts of a location that the file holds: pydantic's also name the alternatives of a union."""
    parts = list(loc)
    for part in parts:
        if (isinstance(value, dict) and part in value) or (isinstance(value, list) and isinstance(part, int)):
            value = value[part]
            yield _NAMES_IN_FILE.get(part, part)
    if missing:
        yield parts[-1]
