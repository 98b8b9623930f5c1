"""One export, from a checkpoint to its place. Nothing appears there unless everything before it held.

    load      the configuration, the index of the save, which of its tensors are the model's
    convert   tensor by tensor into shards, in a folder of its own beside the place
    write     configuration, tokenizer, consumption receipt
    verify    the checkpoint is what it was; the nine checks; every tensor's bytes against the checkpoint's; a signature
    upload    published with the index last, and checked once more where it then lies, by the files' digests

Whatever fails, what was put to the place is taken away again, the index first. A process that is killed leaves shards
that no index names, or nothing: publishing again goes on from there. Its folder `.exporting-*` stays beside the place.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ledger.client.exports.checks import Checked, check_export
from ledger.client.exports.headers import Tensor
from ledger.client.exports.indexes import INDEX
from ledger.client.exports.places import Folder, Place, place
from ledger.client.exports.publishing import publish
from ledger.client.exports.recorded import Stage
from ledger.client.exports.weights import SUFFIX, read_weights
from ledger.client.exports.writing import WrittenModel
from ledger.client.receipts import read_receipt
from ledger.client.recording.files import Files, read_files
from ledger.client.whole import whole
from ledger.core.errors import Broken, InvalidInput, LedgerError
from ledger.events.exports import Check
from services.exporter import signatures, weights
from services.exporter.architectures import Architecture, read_architecture
from services.exporter.checkpoints import Source
from services.exporter.saves import open_save
from services.exporter.selections import Selection, expected, select
from services.exporter.side_files import SideFiles, copy_side_files, find_side_files
from services.exporter.weights import Conversion

RECEIPT: Final = "consumption_receipt.json"
MAX_SHARD_BYTES: Final = 5_000_000_000


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    to: str
    """A folder, or a URL of an object store."""
    base: Path | None = None
    """The model that training began with."""
    prefix: str | None = None
    dtype: str | None = None
    """As torch names it; None: as saved."""
    max_shard_bytes: int = MAX_SHARD_BYTES
    replace: bool = False
    trust_pickles: bool = False
    receipt: Path | None = None
    key: Path | None = None
    """To sign with."""
    signature: Path | None = None
    """Where the signature goes; None: beside a folder."""


@dataclass(frozen=True)
class Exported:
    """What was exported, as it lies at its place."""

    location: str
    files: Files
    checked: Checked
    written: WrittenModel
    selection: Selection
    compared: int
    """Tensors whose bytes are those of the checkpoint, or of its cast."""
    digest_before: str
    digest_after: str
    signature: Path | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Loaded:
    architecture: Architecture
    side: SideFiles
    base: Place | None
    conversion: Conversion


@dataclass
class Export:
    """One export at work. Where it fails, `stage` and `failed_checks` say how far it came."""

    source: Source
    request: Request
    stage: Stage = "load"
    failed_checks: Sequence[Check] = ()
    _notes: list[str] = field(default_factory=list)

    def run(self) -> Exported:
        """Exports.

        Raises:
            LedgerError: what went wrong. Nothing new is at the place then.
        """
        to = target(self.source, self.request)
        signature = self._signature(to)
        loaded = self._load()
        with _scratch(to) as scratch:
            staged = scratch / _name(to)
            staged.mkdir()
            written = self._write(loaded, staged)
            after = self._check_source()
            compared = self._verify(loaded, staged, written)
            signed = scratch / "signature"
            if self.request.key is not None:
                signatures.sign(staged, self.request.key, signed)
            files, checked = self._publish(loaded, staged, to, written, (signed, signature))
        return Exported(
            location=to.location,
            files=files,
            checked=checked,
            written=written,
            selection=loaded.conversion.selection,
            compared=compared,
            digest_before=self.source.digest,
            digest_after=after,
            signature=signature,
            notes=(*self.source.notes, *self._notes),
        )

    def _load(self) -> _Loaded:
        request = self.request
        if request.receipt is not None:
            read_receipt(request.receipt)
        base = _with_weights(request.base)
        side = find_side_files(self.source.side, request.base)
        self._notes += side.notes
        architecture = read_architecture(side.folder)
        save = open_save(self.source.save, trust=request.trust_pickles)
        wanted = expected(architecture, None if base is None else _tensors(base))
        selection = select(save, wanted, prefix=request.prefix)
        weights.check_tied(save, selection)
        return _Loaded(architecture, side, base, Conversion(save, selection, request.dtype))

    def _write(self, loaded: _Loaded, staged: Path) -> WrittenModel:
        self.stage = "convert"
        written = weights.write(loaded.conversion, staged, max_shard_bytes=self.request.max_shard_bytes)
        self.stage = "write"
        self._notes += copy_side_files(loaded.side, staged, loaded.architecture, written.dtypes)
        if self.request.receipt is not None:
            with whole(staged / RECEIPT) as file:
                file.write(self.request.receipt.read_bytes())
        return written

    def _check_source(self) -> str:
        self.stage = "verify"
        after = read_files(self.source.folder).digest
        if after != self.source.digest:
            raise Broken(
                f"{self.source.folder} changed while it was exported: it was {self.source.digest}, and is {after}",
                remedy="Export again once nothing writes to it: the trainer, a cleaner, or another job.",
                details={"folder": str(self.source.folder)},
            )
        return after

    def _verify(self, loaded: _Loaded, staged: Path, written: WrittenModel) -> int:
        self._check(check_export(Folder(staged), base=loaded.base, dtypes=written.dtypes))
        return weights.compare(loaded.conversion, staged)

    def _publish(
        self, loaded: _Loaded, staged: Path, to: Place, written: WrittenModel, signature: tuple[Path, Path | None]
    ) -> tuple[Files, Checked]:
        self.stage = "upload"
        with _withdrawn_on_failure(staged, to):
            files = publish(staged, to, replace=self.request.replace)
            self.stage = "verify"
            checked = check_export(to, base=loaded.base, dtypes=written.dtypes, files=files.files)
            self._check(checked)
            self.stage = "upload"
            signed, at = signature
            if at is not None:
                with whole(at) as file:
                    file.write(signed.read_bytes())
        return files, checked

    def _check(self, checked: Checked) -> None:
        if not checked.is_verified:
            self.failed_checks = checked.failed
            raise Broken(
                f"the export is not whole: {checked.why_not}",
                remedy="Nothing was published. See the checks that failed.",
                details={"place": checked.location},
            )

    def _signature(self, to: Place) -> Path | None:
        """Where the signature goes, if one is asked for and can be made."""
        if self.request.key is None:
            return None
        signatures.require()
        signatures.check_key(self.request.key, public=False)
        signature = (self.request.signature or beside(to)).absolute()
        kept = {"the checkpoint": self.source.folder, "the base model": self.request.base}
        kept["the export itself"] = Path(to.location) if isinstance(to, Folder) else None
        for what, folder in kept.items():
            if folder is not None and signature.resolve().is_relative_to(folder.resolve()):
                raise _inside(signature, what)
        return signature


def target(source: Source, request: Request) -> Place:
    """Where the export goes.

    Raises:
        InvalidInput: reason USAGE, if it lies in the checkpoint or the base, or one of them in it.
        LedgerError: reason EXTRA_MISSING, if a store's packages are not installed.
    """
    to = place(request.to)
    if not isinstance(to, Folder):
        return to
    path = Path(to.location).resolve()
    read = {"the checkpoint": source.folder, "the base model": request.base}
    for what, folder in ((what, each.resolve()) for what, each in read.items() if each is not None):
        if path.is_relative_to(folder) or folder.is_relative_to(path):
            raise InvalidInput(
                f"{path} and {what} {folder} lie in one another, and what is read is never written to",
                reason="USAGE",
                remedy="Name a folder of its own with --to.",
            )
    return Folder(path)


def _inside(signature: Path, what: str) -> InvalidInput:
    return InvalidInput(
        f"the signature {signature} would lie in {what}, whose files stay as they are",
        reason="USAGE",
        remedy="Name a file elsewhere with --signature.",
        details={"file": str(signature)},
    )


def beside(to: Place) -> Path:
    """Where a folder's signature is, unless told otherwise.

    Raises:
        InvalidInput: reason USAGE, for an object store: a signature is a file here.
    """
    if isinstance(to, Folder):
        path = Path(to.location).absolute()
        return path.with_name(f"{path.name}.sig")
    raise InvalidInput(
        f"where is the signature of {to.location}?", reason="USAGE", remedy="Name a file with --signature FILE."
    )


def _name(to: Place) -> str:
    """A signature names the folder that it was made of."""
    return to.location.rstrip("/").rpartition("/")[2] or "model"


@contextmanager
def _scratch(to: Place) -> Iterator[Path]:
    """A folder for what is not published yet: beside a folder that it goes to, else where temporary files go."""
    parent = None
    if isinstance(to, Folder):
        path = Path(to.location)
        parent = next(up for up in path.parents if up.is_dir())
    with tempfile.TemporaryDirectory(prefix=".exporting-", dir=parent) as scratch:
        yield Path(scratch)


@contextmanager
def _withdrawn_on_failure(staged: Path, to: Place) -> Iterator[None]:
    """Takes away what was put to a place where it cannot stay. What was there before stays, unless it was overwritten
    by then: an export that is whole outlives an attempt to replace it that fails before it changes anything."""
    before = set(to.names())
    kept = _equal(staged, to, before)
    missing = _first_missing(to)
    try:
        yield
    except BaseException:
        # A place that cannot be reached any more has no index there: it is put last, and this failed before.
        with suppress(LedgerError, OSError):
            put = {path.name for path in staged.iterdir()} - before
            put |= _equal(staged, to, before.intersection(to.names()) - kept)
            for name in sorted(put, key=lambda name: name != INDEX):
                to.delete(name)
            _remove_empty(to, missing)
        raise


def _equal(staged: Path, to: Place, names: Iterable[str]) -> set[str]:
    """Those of the names under which the place holds the bytes that are staged."""
    ours = Folder(staged)
    same = (n for n in names if (staged / n).is_file() and ours.size(n) == to.size(n))
    return {name for name in same if _digest(ours, name) == _digest(to, name)}


def _digest(at: Place, name: str) -> str:
    made = hashlib.sha256()
    for data in at.chunks(name):
        made.update(data)
    return made.hexdigest()


def _first_missing(to: Place) -> Path | None:
    """The topmost folder that publishing will have to make."""
    if not isinstance(to, Folder) or Path(to.location).exists():
        return None
    path = Path(to.location)
    return next(p for p in (path, *path.parents) if p.parent.exists())


def _remove_empty(to: Place, first: Path | None) -> None:
    if first is None:
        return
    path = Path(to.location)
    while path.is_relative_to(first):
        path.rmdir()
        path = path.parent


def _with_weights(base: Path | None) -> Place | None:
    """The base as a place to compare with, if it has weights and not only a tokenizer."""
    if base is None:
        return None
    if not base.is_dir():
        raise InvalidInput(
            f"there is no folder {base} of a base model",
            reason="INVALID_FILE",
            remedy="Name the folder of the model that training began with by --base.",
            details={"folder": str(base)},
        )
    folder = Folder(base)
    return folder if any(name.endswith(SUFFIX) for name in folder.names()) else None


def _tensors(base: Place) -> dict[str, Tensor]:
    return {name: held.tensor for name, held in read_weights(base, base.names()).by_name().items()}
