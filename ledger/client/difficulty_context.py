"""What was known of a source's difficulty before it was measured, into an event: shown above reports, never as one.

The file is the Atlas's `difficulty/context.json`: the quality solver's initial counts (`reviewer_rollout_baseline`) and
earlier evidence (`historical_reference`). Both are kept as they are, without local file URIs.

    writer.publish(plan_context(path, source_id="MarinSkyRL:svamp", by=me))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ledger.client.drafts import Actor, Publication, draft
from ledger.client.report_files import ReportFile, check_counts, cited
from ledger.client.review_format import without_local_uris
from ledger.core.ids import digest_id
from ledger.events.difficulty import DifficultyContextRecorded
from ledger.events.fields import AnyText, Count, JsonObject

BLOCKS = ("reviewer_rollout_baseline", "historical_reference")


class _Kept(BaseModel):
    """A part of the file of which some members are read by name; the rest is kept."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _Reviewer(_Kept):
    label: AnyText


class _Baseline(_Kept):
    """The solver's counts. What it does not say is unknown."""

    solved: Count | None = None
    verified: Count | None = None
    attempted: Count | None = None
    unverified: Count | None = None
    configured_model_reviewers: list[_Reviewer] = []
    limitations: AnyText | list[AnyText] | None = None


class _Reference(_Kept):
    applicability: AnyText | None = None
    limitations: AnyText | list[AnyText] | None = None
    artifact_path: AnyText | None = None


class _Context(_Kept):
    atlas_id: Annotated[str, Field(min_length=1)] | None = None
    reviewer_rollout_baseline: _Baseline | None = None
    historical_reference: _Reference | None = None


def plan_context(
    path: Path, *, source_id: str, by: Actor, principal: str | None = None, tags: Iterable[str] = ()
) -> Publication:
    """The context of one source as one event; the same file twice is one event.

    Raises:
        InvalidInput: reason INVALID_FILE, with everything that is wrong; also if the file is of another source.
    """
    file = ReportFile(path, "difficulty context")
    said = file.read(_Context, file.raw, ())
    for place, message in _against(file.raw, said, source_id):
        file.note(place, message)
    check_counts(file, file.raw.get(BLOCKS[0]), (BLOCKS[0],))
    if file.problems:
        raise file.refused()
    baseline, reference = (_block(file.raw.get(name)) for name in BLOCKS)
    event = DifficultyContextRecorded(
        atlas_id=source_id,
        context=cited(path.name, file.upload),
        reviewer_rollout_baseline=baseline,
        historical_reference=reference,
    )
    stream = f"source/{source_id}"
    text = event.model_dump_json(exclude_defaults=True)
    event_id = digest_id(principal, stream, "difficulty.context_recorded", text, None)
    made = draft("difficulty.context_recorded", stream, event, by=by, id=event_id, tags=tags)
    return Publication(parts=(made,), uploads=(file.upload,), summary=f"{source_id}: difficulty context")


def _against(raw: dict[str, Any], said: _Context | None, source_id: str) -> Iterator[tuple[str, str]]:
    if not any(raw.get(name) for name in BLOCKS):
        yield "", f"says nothing: it has neither {' nor '.join(BLOCKS)}"
    if said is not None and said.atlas_id not in {None, source_id}:
        yield "/atlas_id", f"the context is of {said.atlas_id!r}, not {source_id!r}"


def _block(value: Any) -> JsonObject:
    kept = without_local_uris(value or {})
    assert isinstance(kept, dict)
    return kept
