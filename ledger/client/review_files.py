"""The files of a review run, and what a document says of them: snapshots with their hashes, places within them.

Nothing outside the run's root is read, whatever a document says: a path that is absolute, climbs, or leads out through
a link is refused. A finding's evidence is a file that its review cites, and a place that is there: a JSON pointer that
resolves, or lines that the file has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PureWindowsPath
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from ledger.client.drafts import Upload
from ledger.client.evidence import upload_of
from ledger.client.review_format import (
    Collection,
    DocumentEvidence,
    DocumentMapping,
    FindingCitation,
    Review,
    known_attributes,
)
from ledger.core.errors import InvalidInput, Problem
from ledger.core.strictjson import pointer
from ledger.events.reviews import Locator

MAX_LOOKED_INTO: Final = 64 * 1024 * 1024
"""A larger file is stored and cited whole; no pointer into it is followed."""

_RANGE: Final = re.compile(r"([1-9][0-9]{0,14})(?:-([1-9][0-9]{0,14}))?", re.ASCII)
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,14}", re.ASCII)
_CHUNK: Final = 1024 * 1024
_NO_DOCUMENT: Final = object()


class RunFiles:
    """The files under a run's root, each found and hashed once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._uploads: dict[str, Upload | str] = {}
        self._line_counts: dict[str, int] = {}
        self._looked_into: tuple[str, Any] = ("", None)
        """The document that a pointer was followed into last: findings of one review cite the same few."""

    def find(self, name: str) -> Path | str:
        """The file of that relative name, or what is wrong with the name."""
        if "\x00" in name or "\\" in name or PureWindowsPath(name).drive or name.startswith("/"):
            return f"{name!r} is no relative path with forward slashes"
        if any(part in {"", ".", ".."} for part in name.split("/")):
            return f"{name!r} does not lie under the run's root"
        path = self._root / name
        try:
            real, root = path.resolve(), self._root.resolve()
            if not real.is_relative_to(root):
                return f"{name!r} leads out of the run's root through a link"
            return path if real.is_file() else f"there is no file {name!r} under the run's root"
        except OSError as error:
            return f"{name!r} cannot be read: {error.strerror}"

    def upload(self, name: str) -> Upload | str:
        """The file's bytes under their hash, or what is wrong with it."""
        if name not in self._uploads:
            self._uploads[name] = self._read(name)
        return self._uploads[name]

    def uploads(self, names: Iterable[str | None]) -> Mapping[str, Upload]:
        """Those of the names that are files, sorted."""
        found = {name: self.upload(name) for name in names if name is not None}
        return MappingProxyType({n: u for n, u in sorted(found.items()) if isinstance(u, Upload)})

    def missed(self, name: str, locator: Locator) -> str | None:
        """Why a file has no such place; None if it has, or if it is not there: that is told where it is cited."""
        path = self.find(name)
        if isinstance(path, str):
            return None
        try:
            if locator.kind == "line_range":
                if name not in self._line_counts:
                    self._line_counts[name] = _line_count(path)
                return _lines_missed(self._line_counts[name], locator.value)
            if self._looked_into[0] != name:
                self._looked_into = (name, _document(path))
            return _pointer_missed(self._looked_into[1], locator.value)
        except OSError as error:
            return f"cannot be read: {error.strerror}"

    def _read(self, name: str) -> Upload | str:
        path = self.find(name)
        if isinstance(path, str):
            return path
        try:
            return upload_of(path)
        except InvalidInput as error:
            return error.message


def all_evidence(collection: Collection) -> Iterator[DocumentEvidence]:
    for review in collection.reviews:
        yield from review.evidence
    for mapping in collection.source_mappings:
        yield from mapping.evidence


def evidence_problems(
    reviews: Mapping[int, Review], mappings: Mapping[int, DocumentMapping], files: RunFiles
) -> Iterator[Problem]:
    """What is wrong with the files that a document cites, and with the places that its findings point at."""
    holders: list[tuple[str, int, Review | DocumentMapping]] = [
        *(("reviews", i, review) for i, review in reviews.items()),
        *(("source_mappings", i, mapping) for i, mapping in mappings.items()),
    ]
    for name, i, holder in holders:
        for j, evidence in enumerate(holder.evidence):
            yield from _about_evidence(evidence, files, pointer(name, i, "evidence", j))
    for i, review in reviews.items():
        yield from _about_findings(review, files, ("reviews", i, "attributes", "finding_evidence"))


def _about_evidence(evidence: DocumentEvidence, files: RunFiles, at: str) -> Iterator[Problem]:
    if evidence.snapshot_path is None:
        if evidence.sha256 is not None:
            yield Problem(f"{at}/snapshot_path", "a hash without a snapshot")
        return
    found = files.upload(evidence.snapshot_path)
    if isinstance(found, str):
        yield Problem(f"{at}/snapshot_path", found)
    elif evidence.sha256 is None:
        yield Problem(f"{at}/sha256", "a snapshot without its hash")
    elif found.sha256 != evidence.sha256:
        yield Problem(f"{at}/sha256", f"{evidence.snapshot_path!r} hashes to {found.sha256}")


def _about_findings(review: Review, files: RunFiles, at: tuple[object, ...]) -> Iterator[Problem]:
    try:
        known = known_attributes(review)
    except ValidationError:
        return  # told with the other attributes
    findings = {finding.id for finding in review.findings}
    cited = {evidence.snapshot_path for evidence in review.evidence}
    for finding, citations in known.finding_evidence.items():
        if finding not in findings:
            yield Problem(pointer(*at, finding), f"the review has no finding {finding!r}")
        for i, citation in enumerate(citations):
            yield from _about_citation(citation, cited, files, (*at, finding, i))


def _about_citation(
    citation: FindingCitation, cited: set[str | None], files: RunFiles, at: tuple[object, ...]
) -> Iterator[Problem]:
    if citation.path not in cited:
        yield Problem(pointer(*at, "path"), f"{citation.path!r} is not among the review's evidence")
        return
    wrong = None if citation.locator is None else files.missed(citation.path, citation.locator)
    if wrong is not None:
        yield Problem(pointer(*at, "locator", "value"), f"{citation.path!r} {wrong}")


def _lines_missed(lines: int, value: str) -> str | None:
    """Why a file of so many lines has no such lines; None if it has."""
    matched = _RANGE.fullmatch(value)
    if matched is None:
        return f"has no lines {value!r}: write FIRST-LAST, from 1"
    first, last = int(matched[1]), int(matched[2] or matched[1])
    if first > last or last > lines:
        return f"has {lines} lines, and not the lines {value}"
    return None


def _line_count(path: Path) -> int:
    lines, last = 0, b"\n"
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            lines += chunk.count(b"\n")
            last = chunk[-1:]
    return lines + (last != b"\n")


def _document(path: Path) -> Any:
    """A file's JSON, also where it is not strict; `_NO_DOCUMENT` if it is none, or too large to look into."""
    if path.stat().st_size > MAX_LOOKED_INTO:
        return _NO_DOCUMENT
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return _NO_DOCUMENT


def _pointer_missed(document: Any, value: str) -> str | None:
    """Why a document has nothing at a JSON pointer; None if it has."""
    if document is _NO_DOCUMENT:
        return f"is no JSON document of at most {MAX_LOOKED_INTO} bytes: name lines of it instead"
    if value and not value.startswith("/"):
        return f"is not reached by {value!r}: a JSON pointer is empty or begins with '/'"
    found = document
    for part in value.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and _INDEX.fullmatch(key) and int(key) < len(found):
            found = found[int(key)]
        else:
            return f"has nothing at {value!r}"
    return None
