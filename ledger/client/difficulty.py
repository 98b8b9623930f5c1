"""A difficulty report into events: the report as its file says it, and each complete follow-up beside it.

Counts are saved by whoever measured; nothing is recomputed here, but counts that contradict each other are refused.
Keys without a field of their own are left to the file, which is stored whole. Publishing a report twice is one
publication.

    writer.publish(plan_difficulty(path, source_id="MarinSkyRL:svamp", by=me))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from ledger.client import faults
from ledger.client.drafts import Actor, Draft, Publication, Upload, draft
from ledger.client.evidence import upload_of
from ledger.client.review_format import with_z
from ledger.core import strictjson
from ledger.core.errors import InvalidInput, Problem
from ledger.core.ids import digest_id, sha256_hex
from ledger.core.strictjson import pointer
from ledger.events.difficulty import (
    DifficultyFollowupReported,
    DifficultyReported,
    ReportedModel,
    ReportProtocol,
    Sampling,
)
from ledger.events.fields import ArtifactRef
from ledger.events.wording import words

ORDERING_AUDIT: Final = "/ordering-audit.json"
"""A report that names such an artifact warns of its order in the last of its limitations."""

_ORDERED: Final = (("solved", "verified"), ("verified", "attempted"), ("unverified", "attempted"))
"""What the first of each pair counts is among what the second counts."""
_NAMES_IN_FILE: Final = MappingProxyType({"followup_id": "id"})

Model = TypeVar("Model", bound=BaseModel)
Place = tuple[object, ...]


@dataclass(frozen=True)
class _Followup:
    event: DifficultyFollowupReported
    uploads: tuple[Upload, ...]


def read_difficulty(path: Path) -> DifficultyReported:
    """What a report's file says.

    Raises:
        InvalidInput: reason INVALID_FILE, with everything that is wrong at "FILE#/json/pointer".
    """
    file = _File(path)
    reported = _reported(file)
    if reported is None or file.problems:
        raise _refused(path, file.problems)
    return reported


def plan_difficulty(
    path: Path, *, source_id: str, by: Actor, principal: str | None = None, tags: Iterable[str] = ()
) -> Publication:
    """The report of one source, and its complete follow-ups.

    A report that a follow-up names is stored and cited where it lies under the folder of this one; otherwise only its
    name in this file is known. Who reports it is part of its events and not of their ids: the same report by another
    actor is an id conflict.

    Raises:
        InvalidInput: reason INVALID_FILE, with everything that is wrong; also if the report is of another source.
    """
    file = _File(path)
    reported = _reported(file)
    if reported is not None and reported.atlas_id != source_id:
        file.note("/atlas_id", f"the report is of {reported.atlas_id!r}, not {source_id!r}")
    followups = list(_followups(file, source_id))
    if reported is None or file.problems:
        raise _refused(path, file.problems)
    stream = f"source/{source_id}"
    tags = tuple(tags)

    def event(type_: str, payload: BaseModel) -> Draft:
        event_id = digest_id(principal, stream, type_, payload.model_dump_json(exclude_defaults=True), None)
        return draft(type_, stream, payload, by=by, id=event_id, tags=tags)

    uploads = {upload.sha256: upload for upload in (*(u for f in followups for u in f.uploads), file.upload)}
    return Publication(
        parts=(
            event("difficulty.reported", reported),
            *(event("difficulty.followup_reported", f.event) for f in followups),
        ),
        uploads=tuple(uploads.values()),
        summary=f"{source_id}: {len(reported.models)} models, {len(followups)} follow-ups",
    )


class _File:
    """A report's file, read once, and what is found wrong with it on the way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []
        try:
            content = path.read_bytes()
            self.raw = strictjson.parse(content)
        except OSError as error:
            raise faults.unreadable(path, error) from None
        except InvalidInput as error:
            raise _refused(path, error.problems) from None
        if not isinstance(self.raw, dict):
            raise _refused(path, [Problem("", "not a JSON object")])
        self.upload = Upload(sha256_hex(content), len(content), content)

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
        return _cited(name, upload), upload


def _cited(name: str, upload: Upload) -> ArtifactRef:
    return ArtifactRef(name=name, sha256=upload.sha256, size=upload.size, media_type="application/json")


def _held(loc: Iterable[Any], value: Any, *, missing: bool) -> Iterator[object]:
    """The parts of a location that the file holds: pydantic's also name the alternatives of a union."""
    parts = list(loc)
    for part in parts:
        if (isinstance(value, dict) and part in value) or (isinstance(value, list) and isinstance(part, int)):
            value = value[part]
            yield _NAMES_IN_FILE.get(part, part)
    if missing:
        yield parts[-1]


def _refused(path: Path, problems: Iterable[Problem]) -> InvalidInput:
    return faults.refused(
        path,
        "difficulty report",
        [Problem(f"{path}#{p.place}", p.message) for p in problems],
        remedy="Correct the fields named; a rate that is not finite is written as a string. Nothing was published.",
    )


def _reported(file: _File) -> DifficultyReported | None:
    raw = file.raw
    models = raw.get("models")
    picked = {
        "estimated_at": None,
        "source_revision": None,
        **_known(raw, DifficultyReported),
        "protocol": _known(raw.get("protocol"), ReportProtocol),
        "sampling": _sampling(raw.get("sampling")),
        "report": _cited(file.path.name, file.upload),
        "ordering_warning": _ordering_warning(raw),
    }
    if isinstance(picked["estimated_at"], str):
        picked["estimated_at"] = with_z(picked["estimated_at"])
    if isinstance(models, list):
        picked["models"] = [_known(model, ReportedModel) for model in models]
        for i, model in enumerate(models):
            _check_counts(file, model, ("models", i))
    if models == []:
        file.note("/models", "a report has at least one model")
    return file.read(DifficultyReported, picked, ())


def _known(value: Any, model: type[BaseModel]) -> Any:
    """The members that the model has a field for. A null where it has a default says as little as an absent key.

    Whatever is no object is left to the model to refuse.
    """
    if not isinstance(value, dict):
        return value
    fields = model.model_fields
    return {k: v for k, v in value.items() if k in fields and (v is not None or fields[k].is_required())}


def _sampling(value: Any) -> Any:
    picked = {} if value is None else _known(value, Sampling)
    if isinstance(picked, dict) and type(picked.get("seed")) is int:
        picked["seed"] = str(picked["seed"])
    return picked


def _ordering_warning(raw: Mapping[str, Any]) -> Any:
    protocol = raw.get("protocol")
    artifacts = protocol.get("artifacts") if isinstance(protocol, dict) else None
    paths = [a.get("path") for a in artifacts if isinstance(a, dict)] if isinstance(artifacts, list) else []
    limitations = raw.get("limitations")
    audited = any(isinstance(path, str) and path.endswith(ORDERING_AUDIT) for path in paths)
    return limitations[-1] if audited and isinstance(limitations, list) and limitations else None


def _check_counts(file: _File, model: Any, at: Place) -> None:
    if not isinstance(model, dict):
        return
    for smaller, larger in _ORDERED:
        few, many = model.get(smaller), model.get(larger)
        if type(few) is int and type(many) is int and few > many:
            file.note(pointer(*at, smaller), f"{few} {smaller} are more than {many} {larger}")
    interval = model.get("wilson_95")
    if isinstance(interval, list) and len(interval) != 2:
        file.note(pointer(*at, "wilson_95"), "an interval has two ends")


def _followups(file: _File, source_id: str) -> Iterator[_Followup]:
    """The complete ones: an incomplete one has no outcome yet."""
    listed = file.raw.get("protocol_followups")
    if listed is not None and not isinstance(listed, list):
        file.note("/protocol_followups", "not a list")
        return
    for i, raw in enumerate(listed or ()):
        at = ("protocol_followups", i)
        if not isinstance(raw, dict):
            file.note(pointer(*at), "not a JSON object")
        elif raw.get("state") == "complete":
            followup = _followup(file, source_id, raw, at)
            if followup is not None:
                yield followup


def _followup(file: _File, source_id: str, raw: dict[str, Any], at: Place) -> _Followup | None:
    _check_counts(file, raw, at)
    size = "hosted" if raw.get("kind") == "alternate_checkpoint" else "followup"
    outcome = file.read(ReportedModel, {**_known(raw, ReportedModel), "size": size}, at)
    report = file.beside(raw.get("report_path"), (*at, "report_path"))
    original = file.beside(raw.get("original_report_path"), (*at, "original_report_path"))
    if outcome is None:
        return None
    picked = {
        **_known(raw, DifficultyFollowupReported),
        "atlas_id": source_id,
        "followup_id": raw.get("id"),
        "original_report": original and original[0],
        "report": report and report[0],
        "changed_parameter": _as_text(raw.get("changed_parameter")),
        "checkpoint_change": _as_text(raw.get("checkpoint_change")),
        "outcome": outcome,
    }
    event = file.read(DifficultyFollowupReported, picked, at)
    if event is None:
        return None
    return _Followup(event, tuple(found[1] for found in (report, original) if found is not None))


def _as_text(value: Any) -> str | None:
    """A setting as the report names it; one that is no text is kept as its JSON."""
    return value if value is None or isinstance(value, str) else strictjson.dumps(value).decode()
