"""The trainer's own export: a checkpoint's weights, out of the model that holds them, as a Hugging Face folder.

Two routes: `in_trainer`, by the run that trained, of the checkpoint that it selected; and `rerun`, by a trainer that
was started for this alone. Either way the checkpoint is read into the trainer's model at its
own step, no update is made, and its files are read and never written: their digest is taken before and after.

The files are written beside the place and checked there; then they are published with the index last, read back, and
checked again. What is faulty, or comes of a checkpoint that changed meanwhile, is never published.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal
from uuid import uuid4

import torch
from torch import Tensor

from ledger.client.exports.checks import Checked, check_export
from ledger.client.exports.places import Folder, Place, place
from ledger.client.exports.publishing import publish
from ledger.client.exports.recorded import Stage, export_completed, export_failed, export_verified
from ledger.client.exports.writing import TensorSpec, write_model
from ledger.client.recording import Recorder
from ledger.client.recording.files import read_files
from ledger.core.errors import Broken, InvalidInput, LedgerError
from ledger.events.exports import Check
from services.trainer.checkpoint_folders import Checkpoint
from services.trainer.checkpoints import check_config
from services.trainer.models import LoadedModel, save_huggingface
from services.trainer.provenance import now, trainer_revision
from services.trainer.settings import Settings

DTYPES: Final[Mapping[torch.dtype, str]] = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
Load = Callable[[], Mapping[str, Tensor]]
"""Reads the checkpoint's weights into the trainer's model, and gives them whole."""
Route = Literal["in_trainer", "rerun"]


@dataclass(frozen=True)
class Exported:
    """What was exported."""

    export_id: str
    location: str
    step: int
    checked: Checked

    def to_dict(self) -> dict[str, Any]:
        """What people are told of it."""
        return {
            "export_id": self.export_id,
            "location": self.location,
            "step": self.step,
            "shards": len(self.checked.shards),
            "total_size": self.checked.tensor_bytes,
            "parameters": self.checked.parameter_count,
            "dtypes": self.checked.dtypes,
            "tied_weights": self.checked.tied_weights,
        }


@dataclass
class _Progress:
    """How far an export came, for what is told of it if it fails."""

    stage: Stage = "load"
    failed_checks: Sequence[Check] = ()


@dataclass(frozen=True)
class Exporter:
    """Exports checkpoints of one run."""

    settings: Settings
    loaded: LoadedModel
    recorder: Recorder
    _at: _Progress = field(default_factory=_Progress)

    def export(
        self,
        checkpoint: Checkpoint,
        load: Load,
        to: str | Path,
        *,
        route: Route,
        replace: bool = False,
        before: str | None = None,
    ) -> Exported:
        """Exports a checkpoint; what fails is recorded, and raised.

        Args:
            checkpoint: Read, and never written.
            load: Reads its weights.
            to: A folder, or a place of an object store.
            route: Which way they come.
            replace: An earlier export at the place makes way.
            before: The digest of the checkpoint's files, where they were hashed just now; None: they are here.

        Raises:
            LedgerError: what went wrong.
        """
        export_id = f"{self.settings.run.id}-step-{checkpoint.step}-{uuid4().hex[:8]}"
        before = before or read_files(checkpoint.path).digest
        self.recorder.record("export.started", self._started(export_id, checkpoint, before, route))
        try:
            return self._exported(export_id, checkpoint, before, load, place(to), replace=replace)
        except BaseException as error:  # an interrupt ends an export too
            self.recorder.record("export.failed", self._failed(export_id, error))
            raise

    def _exported(
        self, export_id: str, checkpoint: Checkpoint, before: str, load: Load, to: Place, *, replace: bool
    ) -> Exported:
        self._at.stage, self._at.failed_checks = "load", ()
        _refuse_inside(checkpoint, to)
        check_config(checkpoint.path, self.loaded.model.config)
        weights = load()
        staging = self.settings.run.folder / f".exporting-{checkpoint.step}-{uuid4().hex}"
        try:
            self._at.stage = "write"
            write_folder(self.loaded, weights, staging, self.settings)
            self._at.stage = "verify"
            self._accept(check_export(place(staging), base=self._base()))
            after = read_files(checkpoint.path).digest
            _refuse_changed(checkpoint, before, after)
            self._at.stage = "upload"
            files = publish(staging, to, replace=replace)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        self._at.stage = "verify"
        checked = check_export(to, base=self._base(), files=files.files)
        completed = export_completed(
            export_id,
            checked,
            files,
            location=to.location,
            checkpoint_digest_before=before,
            checkpoint_digest_after=after,
            completed_at=now(),
        )
        self.recorder.record("export.completed", completed)
        self._accept(checked)
        told: dict[str, Any] = {"tool": trainer_revision("export_tool"), "verified_at": now()}
        self.recorder.record("export.verified", export_verified(export_id, checked, files, **told))
        return Exported(export_id, to.location, checkpoint.step, checked)

    def _accept(self, checked: Checked) -> None:
        if not checked.failed:
            return
        self._at.failed_checks = checked.failed
        raise Broken(
            f"the export at {checked.location} is not whole: {checked.why_not}",
            remedy="Export again; nothing else may write to the checkpoint or the place meanwhile.",
            details={"place": checked.location},
        )

    def _failed(self, export_id: str, error: BaseException) -> dict[str, Any]:
        reason = error.message if isinstance(error, LedgerError) else f"{type(error).__name__}: {error}"
        at = self._at
        return export_failed(export_id, stage=at.stage, reason=reason, failed_checks=at.failed_checks, failed_at=now())

    def _base(self) -> Place | None:
        model = self.settings.model
        return place(model.path) if model.kind == "folder" and model.path is not None else None

    def _started(self, export_id: str, checkpoint: Checkpoint, digest: str, route: str) -> dict[str, Any]:
        return {
            "export_id": export_id,
            "checkpoint": {
                "run_id": self.settings.run.id,
                "step": checkpoint.step,
                "attempt": checkpoint.attempt,
                "digest": digest,
            },
            "route": route,
            "base": self.loaded.ref,
            "code": [trainer_revision("export_tool")],
            "started_at": now(),
        }


def _refuse_inside(checkpoint: Checkpoint, to: Place) -> None:
    if isinstance(to, Folder) and Path(to.location).resolve().is_relative_to(checkpoint.path.resolve()):
        raise InvalidInput(
            f"{to.location} lies in the checkpoint that is exported",
            reason="USAGE",
            remedy="Name a folder elsewhere: a checkpoint's files are never touched.",
            details={"place": to.location},
        )


def _refuse_changed(checkpoint: Checkpoint, before: str, after: str) -> None:
    if before != after:
        raise Broken(
            f"{checkpoint.path} changed while it was exported",
            remedy="See what else writes to it; nothing was published.",
            details={"folder": str(checkpoint.path)},
        )


def write_folder(loaded: LoadedModel, weights: Mapping[str, Tensor], folder: Path, settings: Settings) -> None:
    """A folder of Hugging Face files, as engines and others load it."""
    save_huggingface(
        loaded.model.config,
        loaded.tokenizer,
        folder,
        stop_ids=loaded.stop_ids,
        temperature=settings.algorithm.temperature,
    )
    write_model(
        folder,
        [(spec_of(name, tensor), partial(bytes_of, tensor)) for name, tensor in weights.items()],
        max_shard_bytes=settings.export.max_shard_bytes,
    )


def spec_of(name: str, tensor: Tensor) -> TensorSpec:
    return TensorSpec(name, DTYPES[tensor.dtype], tuple(tensor.shape))


def bytes_of(tensor: Tensor) -> memoryview:
    """Row by row, in this machine's order of bytes, which is little-endian wherever torch runs."""
    flat = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
    data: memoryview = flat.numpy().data
    return data
