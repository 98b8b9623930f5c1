"""What the ledger is told of an export: from which checkpoint, by which route, what came of it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Literal

from ledger.client.exports.checks import Checked
from ledger.client.exports.recorded import export_completed, export_failed, export_verified
from ledger.core.errors import LedgerError
from services.exporter.checkpoints import Source
from services.exporter.exporting import Export, Exported

PACKAGE: Final = "atlas-ledger"
Route = Literal["in_trainer", "rerun", "offline"]
Told = tuple[str, dict[str, Any]]
"""An event's type, and what it says."""


def export_id_of(run_id: str, step: int, digest: str) -> str:
    """The id of an export that was given none: of one checkpoint there is one."""
    return f"{run_id}-step-{step}-{digest[:8]}"


def revision() -> dict[str, Any]:
    """This exporter, as events name it."""
    try:
        found = version(PACKAGE)
    except PackageNotFoundError:  # run from a source tree that is not installed
        found = None
    return {"role": "export_tool", "name": PACKAGE, "version": found}


def started(
    export_id: str,
    source: Source,
    *,
    run_id: str,
    step: int,
    route: Route = "offline",
    route_note: str | None = None,
    base: Path | None = None,
) -> Told:
    """That it was begun. Files were converted, unless somebody who knows says that a trainer did it."""
    checkpoint = {"run_id": run_id, "step": step, "attempt": source.attempt, "digest": source.digest}
    return "export.started", {
        "export_id": export_id,
        "checkpoint": checkpoint,
        "route": route,
        "route_note": route_note,
        "base": None if base is None else {"name": base.absolute().name or str(base)},
        "code": [revision()],
    }


def completed(export_id: str, exported: Exported) -> Told:
    """That the files are there."""
    return "export.completed", export_completed(
        export_id,
        exported.checked,
        exported.files,
        location=exported.location,
        checkpoint_digest_before=exported.digest_before,
        checkpoint_digest_after=exported.digest_after,
    )


def verified(export_id: str, checked: Checked, files: Any, *, base: Path | None = None) -> Told:
    """That it was found whole where it lies."""
    return "export.verified", export_verified(
        export_id,
        checked,
        files,
        place=checked.location,
        base=None if base is None else {"name": base.absolute().name or str(base)},
        tool=revision(),
    )


def failed(export_id: str, export: Export, error: BaseException) -> Told:
    """That it failed, how far it came, and why."""
    reason = error.message if isinstance(error, LedgerError) else f"{type(error).__name__}: {error}"
    return "export.failed", export_failed(
        export_id, stage=export.stage, reason=reason.strip() or "unknown", failed_checks=export.failed_checks
    )
