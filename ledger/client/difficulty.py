"""A difficulty report into events: the report as its file says it, and each complete follow-up beside it.

Counts are saved by whoever measured; nothing is recomputed here, but counts that contradict each other are refused.
Keys without a field of their own are left to the file, which is stored whole. Publishing a report twice is one
publication.

    writer.publish(plan_difficulty(path, source_id="MarinSkyRL:svamp", by=me))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from ledger.client.drafts import Actor, Draft, Publication, Upload, draft
from ledger.client.report_files import Place, ReportFile, check_counts, cited, known
from ledger.client.review_format import with_z
from ledger.core import strictjson
from ledger.core.ids import digest_id
from ledger.core.strictjson import pointer
from ledger.events.difficulty import (
    DifficultyFollowupReported,
    DifficultyReported,
    ReportedModel,
    ReportProtocol,
    Sampling,
)

ORDERING_AUDIT: Final = "/ordering-audit.json"
"""A report that names such an artifact had the order of its models audited."""
WARNING: Final = "The order of the models may mislead: an audit of it is among the report's artifacts ({})."
UNNAMED: Final = "unnamed"
"""The protocol of an archived report that was made before protocols had names."""


@dataclass(frozen=True)
class _Followup:
    event: DifficultyFollowupReported
    uploads: tuple[Upload, ...]


def read_difficulty(path: Path, *, archived: bool = False) -> DifficultyReported:
    """What a report's file says; `archived` as for `plan_difficulty`.

    Raises:
        InvalidInput: reason INVALID_FILE, with everything that is wrong at "FILE#/json/pointer".
    """
    file = ReportFile(path)
    reported = _reported(file, archived=archived)
    if reported is None or file.problems:
        raise file.refused()
    return reported


def plan_difficulty(
    path: Path,
    *,
    source_id: str,
    by: Actor,
    archived: bool = False,
    rests_on: Iterable[str] = (),
    principal: str | None = None,
    tags: Iterable[str] = (),
) -> Publication:
    """The report of one source, and its complete follow-ups.

    A report that a follow-up names is stored and cited where it lies under the folder of this one; otherwise only its
    name in this file is known. Who reports it is part of its events and not of their ids: the same report by another
    actor is an id conflict.

    Args:
        archived: The report may be from before protocols had names: it is then under the protocol `UNNAMED`, which
            nobody adopts, so that it stays historical.
        rests_on: Ids of attestations of the source by which the report vouches for unchanged execution code.

    Raises:
        InvalidInput: reason INVALID_FILE, with everything that is wrong; also if the report is of another source.
    """
    file = ReportFile(path)
    reported = _reported(file, archived=archived, rests_on=tuple(rests_on))
    if reported is not None and reported.atlas_id != source_id:
        file.note("/atlas_id", f"the report is of {reported.atlas_id!r}, not {source_id!r}")
    followups = list(_followups(file, source_id))
    if reported is None or file.problems:
        raise file.refused()
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


def _reported(file: ReportFile, *, archived: bool = False, rests_on: tuple[str, ...] = ()) -> DifficultyReported | None:
    raw = file.raw
    models = raw.get("models")
    picked = {
        "estimated_at": None,
        "source_revision": None,
        **known(raw, DifficultyReported),
        "protocol": _protocol(raw.get("protocol"), archived=archived),
        "sampling": _sampling(raw.get("sampling")),
        "report": cited(file.path.name, file.upload),
        "ordering_warning": _ordering_warning(raw),
        "rests_on": list(rests_on),
    }
    if isinstance(picked["estimated_at"], str):
        picked["estimated_at"] = with_z(picked["estimated_at"])
    if isinstance(models, list):
        picked["models"] = [known(model, ReportedModel) for model in models]
        for i, model in enumerate(models):
            check_counts(file, model, ("models", i))
    if models == []:
        file.note("/models", "a report has at least one model")
    return file.read(DifficultyReported, picked, ())


def _protocol(value: Any, *, archived: bool) -> Any:
    if archived and (value is None or (isinstance(value, dict) and value.get("id") is None)):
        return {**known(value or {}, ReportProtocol), "id": UNNAMED}
    return known(value, ReportProtocol)


def _sampling(value: Any) -> Any:
    picked = {} if value is None else known(value, Sampling)
    if isinstance(picked, dict) and type(picked.get("seed")) is int:
        picked["seed"] = str(picked["seed"])
    return picked


def _ordering_warning(raw: Mapping[str, Any]) -> Any:
    """What the report says of its order; or else that an audit of it is among its artifacts."""
    stated = raw.get("ordering_warning")
    if stated is not None:
        return stated
    protocol = raw.get("protocol")
    artifacts = protocol.get("artifacts") if isinstance(protocol, dict) else None
    paths = [a.get("path") for a in artifacts if isinstance(a, dict)] if isinstance(artifacts, list) else []
    audits = [path for path in paths if isinstance(path, str) and f"/{path}".endswith(ORDERING_AUDIT)]
    return WARNING.format(audits[0]) if audits else None


def _followups(file: ReportFile, source_id: str) -> Iterator[_Followup]:
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


def _followup(file: ReportFile, source_id: str, raw: dict[str, Any], at: Place) -> _Followup | None:
    check_counts(file, raw, at)
    size = "hosted" if raw.get("kind") == "alternate_checkpoint" else "followup"
    outcome = file.read(ReportedModel, {**known(raw, ReportedModel), "size": size}, at)
    report = file.beside(raw.get("report_path"), (*at, "report_path"))
    original = file.beside(raw.get("original_report_path"), (*at, "original_report_path"))
    if outcome is None:
        return None
    picked = {
        **known(raw, DifficultyFollowupReported),
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
