"""A Hugging Face export's folder into events: that it was exported, what lies there, and whether it is whole.

By which route it was exported, the files do not say. Every file is hashed, the configurations of the model and of its
generation among them: they move scores as much as weights do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from ledger.client.drafts import Actor, Upload
from ledger.client.exports.checks import Checked, check_export
from ledger.client.exports.indexes import INDEX
from ledger.client.exports.places import Folder
from ledger.client.exports.recorded import export_completed
from ledger.client.recording.files import Files, read_files
from ledger.core.errors import InvalidInput
from ledger.events.checkpoints import FileDigest
from ledger.events.exports import (
    ExportCompleted,
    ExportedCheckpoint,
    ExportFailed,
    ExportStarted,
    ExportVerified,
)
from ledger.events.runs import Basis
from services.adapters.backfill.accounts import Account
from services.adapters.backfill.books import Book
from services.adapters.backfill.documents import Document, harmless_name, read_document
from services.adapters.backfill.imports import Import

Route = Literal["in_trainer", "rerun", "offline", "unknown"]
MAX_FILES: Final = 2_000


def plan_export(
    folder: Path,
    *,
    export_id: str,
    run_id: str,
    step: int,
    attempt: int | None = None,
    checkpoint_digest: str | None = None,
    route: Route = "unknown",
    by: Actor,
) -> Import:
    """Reads and checks an export's folder.

    Raises:
        InvalidInput: reason INVALID_FILE, if it holds no weights or a file cannot be read.
    """
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is no folder", reason="INVALID_FILE", remedy="Name the folder of the export.")
    checked = check_export(Folder(folder))
    found = read_files(folder)
    files = list(found.files) if len(found.files) <= MAX_FILES else []
    document = Document(Path(harmless_name(folder.resolve().name)), found.digest, found.total_bytes)
    export = _Export(export_id, Book(by), Account(documents=[document]), document.basis())
    export.start(ExportedCheckpoint(run_id=run_id, step=step, attempt=attempt, digest=checkpoint_digest), route)
    export.complete(checked, files, found.digest)
    uploads = export.verify(checked, files, found.digest, folder)
    return Import(f"export/{export_id}", export.book, export.account, uploads)


class _Export:
    def __init__(self, export_id: str, book: Book, account: Account, basis: Basis) -> None:
        self.book = book
        self.account = account
        self._id = export_id
        self._stream = f"export/{export_id}"
        self._basis = basis

    def start(self, checkpoint: ExportedCheckpoint, route: Route) -> None:
        said = ExportStarted(export_id=self._id, checkpoint=checkpoint, route=route, basis=self._basis)
        self.book.add("export.started", self._stream, said, place=[])
        if route == "unknown":
            self.account.note("By which route it was exported is unknown; say it with --route.")

    def complete(self, checked: Checked, files: list[FileDigest], digest: str) -> None:
        told = export_completed(self._id, checked, Files(tuple(files), digest), basis=self._basis)
        said = ExportCompleted.model_validate(told)
        self.book.add("export.completed", self._stream, said, place=[])
        self.account.found |= {
            "shards": len(checked.shards),
            "tensors": checked.tensor_count,
            "parameters": checked.parameter_count,
            "tensor bytes": checked.tensor_bytes,
            "digest": digest,
            "checks": [c.model_dump() for c in checked.checks],
        }

    def verify(self, checked: Checked, files: list[FileDigest], digest: str, folder: Path) -> list[Upload]:
        """Adds the verdict of the checks; gives the bytes that it cites."""
        if checked.failed:
            self._fail(checked)
            return []
        numbers = checked.numbers
        if numbers is None:
            self.account.note("One file without an index: there is nothing to verify it against.")
            return []
        index = read_document(folder / INDEX, "application/json")
        said = ExportVerified(
            export_id=self._id,
            digest=digest,
            numbers=numbers,
            checks=checked.checks,
            files=files,
            basis=index.basis("Checked at the import, by the headers of all shards."),
        )
        self.book.add("export.verified", self._stream, said, place=[])
        return [Upload(index.sha256, index.size, index.path)]

    def _fail(self, checked: Checked) -> None:
        for check in checked.failed:
            self.account.unreadable(check.file or check.name, check.detail or check.name)
        said = ExportFailed(
            export_id=self._id,
            stage="verify",
            reason=checked.why_not,
            failed_checks=checked.failed,
            basis=self._basis,
        )
        self.book.add("export.failed", self._stream, said, place=[])
