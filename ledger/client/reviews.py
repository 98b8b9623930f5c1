"""A review run's directory into events: evidence first, one part a review and a tag, then `review.published`.

The directory is that of the Atlas review format 0.3.0. Nothing outside it is read, whatever a document says: a path
that is absolute, climbs, or leads out through a link is refused. A run is read whole or refused whole, with every
problem at "FILE#/json/pointer". Ids come from the document's SHA-256, so publishing a run twice is one publication.
What a run does not say (dates, revisions) stays unknown.

    run = read_review(directory, atlas_id="MarinSkyRL:svamp")
    writer.publish(plan_review(run, by=me, verifier_revision=revision, verifier_revision_basis="catalogue"))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import Final, Literal

from pydantic import BaseModel

from ledger.client import faults
from ledger.client.drafts import Actor, Draft, Publication, Upload, actor, draft, parts_of
from ledger.client.evidence import upload_of
from ledger.client.review_checks import read_collection
from ledger.client.review_format import (
    Collection,
    DocumentEvidence,
    DocumentMapping,
    Review,
    TagAssignment,
    known_attributes,
    sole_source,
    source_syntheses,
)
from ledger.core.errors import InvalidInput, Problem
from ledger.core.ids import digest_id, sha256_hex
from ledger.core.strictjson import pointer
from ledger.events.fields import ArtifactRef, Person
from ledger.events.reviews import (
    Evidence,
    JudgmentRecorded,
    ObservationRecorded,
    ReviewPublished,
    SourceMapping,
    SynthesisRecorded,
    TagAssigned,
    Verification,
)

DOCUMENT: Final = "quality-reviews.json"
RUN_FILES: Final = ("run.json", "quality-review.schema.json", "artifact-manifest.json")
"""What describes the run itself; published when it is there."""
MAX_PAYLOAD: Final = 1024 * 1024
MAX_CITED: Final = 2_000
"""So many artifacts fit into one payload. The closing event names those of its parts too while they are so few."""

_SOUND: Final = "review that can be published"
_MEDIA_TYPES: Final = MappingProxyType({".json": "application/json", ".jsonl": "application/x-ndjson"})
_EVENTS: Final[Mapping[str, type[ObservationRecorded | JudgmentRecorded | SynthesisRecorded]]] = MappingProxyType(
    {
        "runtime_execution": ObservationRecorded,
        "static_inspection": ObservationRecorded,
        "unknown": ObservationRecorded,
        "model_judgment": JudgmentRecorded,
        "human_judgment": JudgmentRecorded,
        "synthesis": SynthesisRecorded,
    }
)
_TYPES: Final = MappingProxyType(
    {
        ObservationRecorded: "observation.recorded",
        JudgmentRecorded: "judgment.recorded",
        SynthesisRecorded: "synthesis.recorded",
    }
)


@dataclass(frozen=True)
class ReviewRun:
    """A review run that is sound: its document, and the evidence that it cites."""

    path: Path
    """Of the document."""
    collection: Collection
    document: Upload
    evidence: Mapping[str, Upload]
    """Every snapshot that is cited, by its path under the run's root."""
    run_files: Mapping[str, Upload]

    @property
    def review(self) -> str:
        """The collection's name: the SHA-256 of its document."""
        return self.document.sha256

    @property
    def source_id(self) -> str:
        return sole_source(self.collection.subjects).source_id

    @property
    def dataset_revision(self) -> str | None:
        """The dataset revision that was reviewed."""
        return sole_source(self.collection.subjects).dataset_revision


def read_review(directory: Path, *, atlas_id: str | None = None) -> ReviewRun:
    """Reads and judges a run's directory. With `atlas_id`, it must be a review of that source.

    Raises:
        InvalidInput: reason INVALID_FILE, with everything that is wrong.
    """
    path = directory / DOCUMENT
    files = _Files(directory)
    content = _content(path, files)
    parsed = read_collection(content, atlas_id=atlas_id)
    problems = [*parsed.problems, *_evidence_problems(parsed.reviews, parsed.mappings, files)]
    run_files = {name: files.upload(name) for name in RUN_FILES if (directory / name).exists()}
    problems += [Problem("", f"{name}: {found}") for name, found in run_files.items() if isinstance(found, str)]
    if problems or parsed.collection is None:
        raise faults.refused(
            path,
            _SOUND,
            [Problem(f"{path}#{p.place}", p.message) for p in problems],
            remedy="Correct the run, or make it again: the format is 0.3.0 of the Atlas. Nothing was published.",
        )
    return ReviewRun(
        path=path,
        collection=parsed.collection,
        document=Upload(sha256_hex(content), len(content), content),
        evidence=files.uploads(e.snapshot_path for e in _all_evidence(parsed.collection)),
        run_files=files.uploads(run_files),
    )


def plan_review(
    run: ReviewRun,
    *,
    by: Actor,
    verifier_revision: str | None,
    verifier_revision_basis: Literal["execution", "catalogue", "publisher"] | None,
    principal: str | None = None,
    tags: Iterable[str] = (),
) -> Publication:
    """The run as one publication of its source.

    A tag assignment that the document itself marks as retracted is no event: it stands in the document alone.

    Args:
        by: Who publishes. A part's actor is its reviewer, or who assigned the tag.
        verifier_revision: The verifier revision that the rating covers, and who says so.

    Raises:
        InvalidInput: reason TOO_LARGE, naming each review that does not fit into one event.
    """
    plan = _Plan(run, principal, tuple(tags))
    parts = tuple(plan.parts())
    _check_sizes(run, parts)
    basis = verifier_revision_basis if verifier_revision is not None else None
    closing = plan.closing(by, parts, verifier_revision, basis)
    distinct = {u.sha256: u for u in (run.document, *run.run_files.values(), *run.evidence.values())}
    counted = f"{len(run.collection.reviews)} reviews, {len(distinct)} artifacts"
    return Publication(
        parts=parts,
        closing=closing,
        uploads=tuple(distinct.values()),
        summary=f"{run.source_id}: review {run.review[:12]}, {counted}",
    )


def _content(path: Path, files: _Files) -> bytes:
    found = files.find(DOCUMENT)
    if isinstance(found, str):
        remedy = f"Name the folder of a review run: {DOCUMENT} lies in it, as a file of its own."
        raise faults.refused(path, _SOUND, [Problem(str(path), found)], remedy=remedy)
    try:
        return found.read_bytes()
    except OSError as error:
        raise faults.unreadable(path, error) from None


class _Files:
    """The files under a run's root, each found and hashed once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._uploads: dict[str, Upload | str] = {}

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
        if name not in self._uploads:
            self._uploads[name] = self._read(name)
        return self._uploads[name]

    def _read(self, name: str) -> Upload | str:
        path = self.find(name)
        if isinstance(path, str):
            return path
        try:
            return upload_of(path)
        except InvalidInput as error:
            return error.message

    def uploads(self, names: Iterable[str | None]) -> Mapping[str, Upload]:
        """Those of the names that are files, sorted."""
        found = {name: self.upload(name) for name in names if name is not None}
        return MappingProxyType({n: u for n, u in sorted(found.items()) if isinstance(u, Upload)})


def _all_evidence(collection: Collection) -> Iterator[DocumentEvidence]:
    for review in collection.reviews:
        yield from review.evidence
    for mapping in collection.source_mappings:
        yield from mapping.evidence


def _evidence_problems(
    reviews: Mapping[int, Review], mappings: Mapping[int, DocumentMapping], files: _Files
) -> Iterator[Problem]:
    holders: list[tuple[str, int, Review | DocumentMapping]] = [
        *(("reviews", i, review) for i, review in reviews.items()),
        *(("source_mappings", i, mapping) for i, mapping in mappings.items()),
    ]
    for name, i, holder in holders:
        for j, evidence in enumerate(holder.evidence):
            yield from _about_evidence(evidence, files, pointer(name, i, "evidence", j))


def _about_evidence(evidence: DocumentEvidence, files: _Files, at: str) -> Iterator[Problem]:
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


def _check_sizes(run: ReviewRun, parts: Sequence[Draft]) -> None:
    large = [
        Problem(f"{run.path}#{pointer('reviews', i)}", f"{len(part.payload)} bytes as an event")
        for i, part in enumerate(parts[: len(run.collection.reviews)])
        if len(part.payload) > MAX_PAYLOAD
    ]
    if large:
        raise InvalidInput(
            f"{large[0].place}: a review is {large[0].message}, at most {MAX_PAYLOAD} fit",
            reason="TOO_LARGE",
            remedy="Move long texts out of the attributes into evidence files.",
            problems=large,
        )


def _cited(name: str, upload: Upload) -> ArtifactRef:
    return ArtifactRef(
        name=name, sha256=upload.sha256, size=upload.size, media_type=_MEDIA_TYPES.get(PurePosixPath(name).suffix)
    )


class _Plan:
    """One run's events, with what they share."""

    def __init__(self, run: ReviewRun, principal: str | None, tags: tuple[str, ...]) -> None:
        self._run = run
        self._principal = principal
        self._tags = tags
        self._stream = f"source/{run.source_id}"
        self._collection = f"review-{run.review[:24]}"
        self._subjects = {s.id: s for s in run.collection.subjects}

    def parts(self) -> Iterator[Draft]:
        for review in self._run.collection.reviews:
            yield self._review(review)
        for tag in self._run.collection.tag_assignments:
            if tag.state == "active":
                yield self._tag(tag)

    def closing(
        self,
        by: Actor,
        parts: Sequence[Draft],
        verifier_revision: str | None,
        basis: Literal["execution", "catalogue", "publisher"] | None,
    ) -> Draft:
        document = self._run.collection
        provenance = document.execution_provenance
        attributes = [known_attributes(review) for review in document.reviews]
        payload = ReviewPublished(
            collection=self._collection,
            review=self._run.review,
            source_id=self._run.source_id,
            parts=parts_of(parts),
            document=_cited(DOCUMENT, self._run.document),
            schema_version=document.schema_version,
            created_at=document.created_at,
            dataset_revision=self._run.dataset_revision,
            verifier_revision=verifier_revision,
            verifier_revision_basis=basis,
            executed_commit=provenance.marinskyrl_commit if provenance is not None else None,
            reference_commit=_reference_commit(document),
            execution_provenance=provenance,
            review_pool_role=next((a.review_pool_role for a in attributes if a.review_pool_role is not None), None),
            artifacts=self._artifacts(),
            source_mappings=[self._mapping(mapping) for mapping in document.source_mappings],
        )
        return self._draft("review.published", "closing", payload, by)

    def _review(self, review: Review) -> Draft:
        kind = _EVENTS[review.method]
        native = known_attributes(review).verification
        same = review.model_dump(exclude={"id", "subject_id", "evidence"})
        payload = kind.model_validate(
            {
                **same,
                "collection": self._collection,
                "review_id": review.id,
                "subject": self._subjects[review.subject_id],
                "evidence": [self._evidence(e) for e in review.evidence],
                "verification": Verification(**native.model_dump()) if native is not None else None,
            }
        )
        return self._draft(_TYPES[kind], f"review:{review.id}", payload, _as_actor(review.reviewer))

    def _tag(self, tag: TagAssignment) -> Draft:
        same = tag.model_dump(exclude={"id", "state"})
        payload = TagAssigned.model_validate({**same, "collection": self._collection, "assignment_id": tag.id})
        return self._draft("tag.assigned", f"tag:{tag.id}", payload, _as_actor(tag.assigned_by))

    def _mapping(self, mapping: DocumentMapping) -> SourceMapping:
        same = mapping.model_dump(exclude={"evidence"})
        return SourceMapping.model_validate({**same, "evidence": [self._evidence(e) for e in mapping.evidence]})

    def _evidence(self, evidence: DocumentEvidence) -> Evidence:
        name = evidence.snapshot_path
        return Evidence(
            artifact=_cited(name, self._run.evidence[name]) if name is not None else None,
            retrieved_at=evidence.retrieved_at,
            locator=evidence.locator,
            artifact_revision=evidence.artifact_revision,
        )

    def _artifacts(self) -> list[ArtifactRef]:
        own = [_cited(name, upload) for name, upload in self._run.run_files.items()]
        of_parts = [_cited(name, upload) for name, upload in self._run.evidence.items()]
        return own + of_parts if len(own) + len(of_parts) <= MAX_CITED else own

    def _draft(self, type_: str, part: str, payload: BaseModel, by: Actor) -> Draft:
        event_id = digest_id(self._principal, self._run.review, part)
        return draft(type_, self._stream, payload, by=by, id=event_id, tags=self._tags)


def _as_actor(person: Person) -> Actor:
    return actor(person.id, person.kind)


def _reference_commit(document: Collection) -> str | None:
    """The commit that was looked at: as the source's synthesis says, or else the only one that the reviews name."""
    for synthesis in source_syntheses(document.subjects, document.reviews):
        said = known_attributes(synthesis).inspected_marinskyrl_commit
        if said is not None:
            return said
    named = {known_attributes(review).inspected_marinskyrl_commit for review in document.reviews} - {None}
    return named.pop() if len(named) == 1 else None
