"""What the ledger is told of an export: payloads for `Recorder.record`, as dicts.

    completed = export_completed("e-15", checked, files, location=place.location)
    type_, said = verdict("e-15", checked, files, place=place.location)
    rec.record("export.completed", completed)
    rec.record(type_, said)

An export that was checked and found faulty is `export.failed` with the checks that failed. One whose checks could not
all be made is neither: "verified" is said of what was checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ledger.client.exports.checks import Checked, countable
from ledger.client.recording.files import MAX_FILES, Files
from ledger.core.errors import InvalidInput
from ledger.events.exports import Check

Stage = Literal["load", "convert", "write", "verify", "upload", "other"]
Payload = dict[str, Any]


def export_completed(
    export_id: str,
    checked: Checked,
    files: Files,
    *,
    location: str | None = None,
    checkpoint_digest_before: str | None = None,
    checkpoint_digest_after: str | None = None,
    **fields: Any,
) -> Payload:
    """That the files are there. `fields` are others of `export.completed`, such as completed_at."""
    return _told(
        export_id=export_id,
        **_of_files(files),
        shard_count=len(checked.shards),
        total_size=countable(checked.tensor_bytes),
        tensor_count=checked.tensor_count,
        parameter_count=countable(checked.parameter_count),
        dtypes=checked.dtypes,
        tied_weights=checked.tied_weights,
        location=location,
        checkpoint_digest_before=checkpoint_digest_before,
        checkpoint_digest_after=checkpoint_digest_after,
        **fields,
    )


def export_verified(
    export_id: str,
    checked: Checked,
    files: Files | None = None,
    *,
    place: str | None = None,
    base: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Payload:
    """That it was found whole, with what was checked. `files` are as they were read where it was checked.

    Raises:
        InvalidInput: reason USAGE, if a check failed, or a required one could not be made.
    """
    numbers = checked.numbers
    if not checked.is_verified or numbers is None:
        raise InvalidInput(
            f"{checked.location} is not verified: {checked.why_not}",
            reason="USAGE",
            remedy="Record what failed as export.failed. An export of one file has no index to verify it against.",
        )
    return _told(
        export_id=export_id,
        place=place or checked.location,
        numbers=numbers.model_dump(),
        checks=[c.model_dump() for c in checked.checks],
        base=dict(base) if base is not None else None,
        **(_of_files(files) if files is not None else {}),
        **fields,
    )


def export_failed(
    export_id: str, *, stage: Stage, reason: str, failed_checks: Sequence[Check] = (), **fields: Any
) -> Payload:
    """That it failed, at which stage and why."""
    return _told(
        export_id=export_id,
        stage=stage,
        reason=reason[:2_000],
        failed_checks=[c.model_dump() for c in failed_checks],
        **fields,
    )


def verdict(export_id: str, checked: Checked, files: Files | None = None, **fields: Any) -> tuple[str, Payload]:
    """What the checks came to: `export.verified`, or `export.failed` with what failed. The event's type comes first.

    `fields` are those of `export_verified`; a failure takes none of them.

    Raises:
        InvalidInput: reason USAGE, if nothing failed, and it cannot be called verified all the same.
    """
    if checked.failed:
        failed = export_failed(export_id, stage="verify", reason=checked.why_not, failed_checks=checked.failed)
        return "export.failed", failed
    return "export.verified", export_verified(export_id, checked, files, **fields)


def _of_files(files: Files) -> Payload:
    """The digest, and the files by name while an event holds them."""
    named = [f.model_dump() for f in files.files] if len(files.files) <= MAX_FILES else []
    return {"digest": files.digest, "files": named}


def _told(**fields: Any) -> Payload:
    """What is not known is left out."""
    return {name: value for name, value in fields.items() if value is not None}
