"""The parts of a review's publication: an event for each observation, judgment, synthesis and tag of its document.

A part keeps what its review says, under the same names. Evidence is named by its content and its path within the run,
never by where it lay; a judge's session and a finding's evidence are read from the review's attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final

from pydantic import BaseModel

from ledger.client.drafts import Actor, Draft, Upload, actor, draft
from ledger.client.review_format import (
    Collection,
    DocumentEvidence,
    DocumentFinding,
    DocumentMapping,
    KnownAttributes,
    Review,
    TagAssignment,
    known_attributes,
    sole_source,
    without_local_uris,
)
from ledger.core.ids import digest_id, sha256_hex
from ledger.events.fields import ArtifactRef, Person
from ledger.events.reviews import (
    Evidence,
    Finding,
    FindingEvidence,
    JudgeSession,
    JudgmentRecorded,
    ObservationRecorded,
    SourceMapping,
    Subject,
    SynthesisRecorded,
    TagAssigned,
    Verification,
)

_MEDIA_TYPES: Final = MappingProxyType(
    {
        ".json": "application/json",
        ".jsonl": "application/x-ndjson",
        ".txt": "text/plain",
        ".log": "text/plain",
        ".md": "text/markdown",
        ".html": "text/html",
        ".csv": "text/csv",
        ".png": "image/png",
        ".jpg": "image/jpeg",
        ".pdf": "application/pdf",
        ".gz": "application/gzip",
        ".zip": "application/zip",
        ".parquet": "application/vnd.apache.parquet",
    }
)
"""By the name's ending, alike on every machine; what is not here has none and is stored just the same."""
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
class ReviewParts:
    """One run's parts, with what they share."""

    document: Collection
    review: str
    """The collection's name: the SHA-256 of its document."""
    evidence: Mapping[str, Upload]
    principal: str | None
    tags: tuple[str, ...]

    @property
    def collection(self) -> str:
        """What joins the parts to the event that closes them."""
        return f"review-{self.review[:24]}"

    @cached_property
    def _stream(self) -> str:
        return f"source/{sole_source(self.document.subjects).source_id}"

    @cached_property
    def _subjects(self) -> Mapping[str, Subject]:
        return {subject.id: subject for subject in self.document.subjects}

    def drafts(self) -> Iterator[Draft]:
        for review in self.document.reviews:
            yield self._review(review)
        for tag in self.document.tag_assignments:
            if tag.state == "active":
                yield self._tag(tag)

    def _review(self, review: Review) -> Draft:
        kind = _EVENTS[review.method]
        known = known_attributes(review)
        native = known.verification
        same = review.model_dump(exclude={"id", "subject_id", "evidence", "findings"})
        said = {
            **same,
            "collection": self.collection,
            "review_id": review.id,
            "subject": self._subjects[review.subject_id],
            "metrics": without_local_uris(same["metrics"]),
            "findings": [self._finding(f, known) for f in review.findings],
            "evidence": [self._evidence(e) for e in review.evidence],
            "verification": Verification(**native.model_dump()) if native is not None else None,
            "attributes": without_local_uris(review.attributes),
        }
        if kind is JudgmentRecorded:
            said["session"] = _session(known)
        payload = kind.model_validate(said)
        return self.draft(_TYPES[kind], f"review:{review.id}", payload, _as_actor(review.reviewer))

    def _finding(self, finding: DocumentFinding, known: KnownAttributes) -> Finding:
        evidence = [
            FindingEvidence(artifact=cited(c.path, self.evidence[c.path]), locator=c.locator)
            for c in known.finding_evidence.get(finding.id, ())
        ]
        return Finding(**finding.model_dump(), evidence=evidence)

    def _tag(self, tag: TagAssignment) -> Draft:
        same = tag.model_dump(exclude={"id", "state"})
        payload = TagAssigned.model_validate({**same, "collection": self.collection, "assignment_id": tag.id})
        return self.draft("tag.assigned", f"tag:{tag.id}", payload, _as_actor(tag.assigned_by))

    def mapping(self, mapping: DocumentMapping) -> SourceMapping:
        same = mapping.model_dump(exclude={"evidence"})
        return SourceMapping.model_validate({**same, "evidence": [self._evidence(e) for e in mapping.evidence]})

    def _evidence(self, evidence: DocumentEvidence) -> Evidence:
        name = evidence.snapshot_path
        return Evidence(
            artifact=cited(name, self.evidence[name]) if name is not None else None,
            retrieved_at=evidence.retrieved_at,
            locator=evidence.locator,
            artifact_revision=evidence.artifact_revision,
        )

    def draft(self, type_: str, part: str, payload: BaseModel, by: Actor) -> Draft:
        """An event of the run; `part` names it within the run, so that it is the same event each time."""
        event_id = digest_id(self.principal, self.review, part)
        return draft(type_, self._stream, payload, by=by, id=event_id, tags=self.tags)


def _as_actor(person: Person) -> Actor:
    return actor(person.id, person.kind)


def _session(known: KnownAttributes) -> JudgeSession | None:
    """Where a judge was asked, and with what, as far as it is recorded."""
    prompt = None if known.prompt is None else sha256_hex(known.prompt.encode())
    session = JudgeSession(conversation_id=known.conversation_id, request_ids=known.request_ids, prompt_sha256=prompt)
    return session if session != JudgeSession() else None


def cited(name: str, upload: Upload) -> ArtifactRef:
    """How an event names a file of the run: by its path there, and by its content."""
    return ArtifactRef(
        name=name, sha256=upload.sha256, size=upload.size, media_type=_MEDIA_TYPES.get(PurePosixPath(name).suffix)
    )
