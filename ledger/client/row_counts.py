"""How many rows Parquet files hold, by their footers, once it is known of which revision they are.

- A file counts only where its download says the revision, or where its hash is one that was named for it. Otherwise it
  is refused, unless the caller takes it unchecked: then the count's revision is unknown, and stays so.
- The same bytes count once, however often they are named.
- The basis says what was counted: input, clean and released rows are different counts and are never added up.

    count = count_rows(paths, source_id="MarinSkyRL:gsm8k", revision=commit, basis="input")
    writer.publish(plan_count(row, count.as_row_count(), by=me, base=base, row_count=n, uploads=[count.evidence]))
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ledger.client.downloads import Origin, origin_of
from ledger.client.drafts import Upload
from ledger.client.evidence import upload_of
from ledger.core import strictjson
from ledger.core.errors import InvalidInput, Problem
from ledger.core.ids import sha256_hex
from ledger.events.catalogue import RowCount
from ledger.events.fields import ArtifactRef

Basis = Literal["input", "clean", "released"]
BASES: Final[tuple[Basis, ...]] = ("input", "clean", "released")
METHOD: Final = "Sum of the row counts in the footers of the Parquet files that the evidence names."


@dataclass(frozen=True)
class CountedFile:
    """One file that counts."""

    name: str
    """Within the repository, or as much of the path as tells nothing of the machine."""
    size: int
    sha256: str
    rows: int
    checked_by: Literal["download", "sha256", "nothing"]
    """What says that it is of the revision."""


@dataclass(frozen=True)
class Count:
    """The rows of some files, with what shows them."""

    source_id: str
    basis: Basis
    revision: str | None
    """None: at least one file's revision was not checked."""
    files: tuple[CountedFile, ...]
    repeated: tuple[str, ...]
    """Names of files whose bytes were counted under another name."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def folders(self) -> list[str]:
        """Where the files lie: those of several configurations of a dataset lie in several folders."""
        return sorted({file.name.rpartition("/")[0] for file in self.files})

    @property
    def evidence(self) -> Upload:
        """The files with their hashes and rows, as JSON."""
        listed = [
            {"file": f.name, "bytes": f.size, "sha256": f.sha256, "rows": f.rows, "revision_checked_by": f.checked_by}
            for f in self.files
        ]
        content = strictjson.dumps(
            {
                "source_id": self.source_id,
                "basis": self.basis,
                "revision": self.revision,
                "rows": self.rows,
                "files": listed,
                "repeated": list(self.repeated),
            }
        )
        return Upload(sha256_hex(content), len(content), content)

    def as_row_count(self) -> RowCount:
        """The count as the catalogue records it."""
        evidence = self.evidence
        reference = ArtifactRef(
            name="row-count.json", sha256=evidence.sha256, size=evidence.size, media_type="application/json"
        )
        return RowCount(basis=self.basis, rows=self.rows, revision=self.revision, evidence=reference, method=METHOD)


def count_rows(
    paths: Sequence[Path],
    *,
    source_id: str,
    revision: str,
    basis: Basis,
    hashes: Collection[str] = (),
    unchecked: bool = False,
) -> Count:
    """Counts the rows of the files.

    Args:
        hashes: SHA-256 of files that are known to be those of the revision.
        unchecked: Takes a file also where nothing says its revision.

    Raises:
        InvalidInput: reason INVALID_FILE with every file that is not of the revision or no Parquet, or EXTRA_MISSING.
    """
    counting = _Counting(revision, frozenset(hashes), unchecked=unchecked)
    for path in paths:
        counting.take(path)
    if counting.problems:
        raise _refused(counting.problems)
    files = tuple(sorted(counting.files.values(), key=lambda f: (f.name, f.sha256)))
    known = all(file.checked_by != "nothing" for file in files)
    return Count(source_id, basis, revision if known else None, files, tuple(sorted(counting.repeated)))


@dataclass
class _Counting:
    """The files taken so far, by hash, and what is wrong with the others."""

    revision: str
    hashes: frozenset[str]
    unchecked: bool = field(kw_only=True)
    files: dict[str, CountedFile] = field(default_factory=dict)
    repeated: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def take(self, path: Path) -> None:
        try:
            upload, origin = upload_of(path), origin_of(path)
            checked_by = self._checked(upload.sha256, origin)
            rows = footer_rows(path)
        except InvalidInput as error:
            if error.reason != "INVALID_FILE":
                raise
            self.problems += [Problem(str(path), p.message) for p in error.problems] or [
                Problem(str(path), error.message)
            ]
            return
        name = origin.name if origin is not None else path.name
        if upload.sha256 in self.files:
            self.repeated.append(name)
            return
        self.files[upload.sha256] = CountedFile(name, upload.size, upload.sha256, rows, checked_by)

    def _checked(self, sha256: str, origin: Origin | None) -> Literal["download", "sha256", "nothing"]:
        """What says that the file is of the revision.

        Raises:
            InvalidInput: nothing does, or something says otherwise.
        """
        if sha256 in self.hashes:
            return "sha256"
        if origin is not None and origin.revision != self.revision:
            raise _not_countable(f"the download says that it is of {origin.revision}, not {self.revision}")
        if origin is not None and origin.sha256 not in {None, sha256}:
            raise _not_countable(f"it hashes to {sha256}, and at its revision to {origin.sha256}")
        if origin is not None:
            return "download"
        if not self.unchecked:
            raise _not_countable("nothing says of which revision it is")
        return "nothing"


def footer_rows(path: Path) -> int:
    """The rows that a Parquet file's footer counts.

    Raises:
        InvalidInput: reason EXTRA_MISSING without pyarrow; INVALID_FILE if it is no Parquet.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415  # of an extra: only this function needs it
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise InvalidInput(
            "pyarrow is not installed, and the rows of a Parquet file are read with it",
            reason="EXTRA_MISSING",
            remedy="Install it: pip install 'atlas-ledger[parquet]'.",
        ) from None
    try:
        return int(parquet.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise _not_countable(f"it is no Parquet file: {str(error).partition(chr(10))[0][:200]}") from None


def _not_countable(message: str) -> InvalidInput:
    return InvalidInput(message, reason="INVALID_FILE")


def _refused(problems: Iterable[Problem]) -> InvalidInput:
    found = list(problems)
    return InvalidInput(
        f"{len(found)} of the files cannot be counted",
        reason="INVALID_FILE",
        remedy="Name files of a download at that revision, or the hashes that its owner gives them (--files-sha256); "
        "--revision-unchecked counts them, and records that their revision is unknown. Nothing was recorded.",
        problems=found,
    )
