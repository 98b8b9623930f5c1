"""What the parts of a review document must say of one another, beyond what its models express.

`read_collection` judges a document alone: strict JSON, the format, then the references and rules that no schema
expresses. It reports everything that is wrong at once, each with its JSON pointer; an item that is not of the format is
left out of the later checks, and what refers to it still resolves. Files on disk are the business of `reviews`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from ledger.client.review_format import (
    Collection,
    DocumentMapping,
    Review,
    TagAssignment,
    known_attributes,
    source_syntheses,
)
from ledger.core import strictjson
from ledger.core.errors import InvalidInput, Problem
from ledger.core.text import is_header_text
from ledger.events.fields import Person
from ledger.events.reviews import Subject
from ledger.events.wording import words

MAX_ACTOR: Final = 256
"""Who says it stands in an event's header, where only so much printable ASCII fits."""

Item = TypeVar("Item", bound=BaseModel)
Items = Mapping[int, Item]
"""The items of a list that are of the format, by their place in the document."""


@dataclass(frozen=True)
class Parsed:
    """A document as far as it could be read, and everything that is wrong with it."""

    collection: Collection | None
    """None if any part of it is not of the format."""
    reviews: Items[Review]
    mappings: Items[DocumentMapping]
    problems: tuple[Problem, ...]


def read_collection(data: bytes, *, atlas_id: str | None = None) -> Parsed:
    """Reads a document and judges it; `atlas_id` is the source that it must be about, if that is known."""
    try:
        raw = strictjson.parse(data)
    except InvalidInput as error:
        return Parsed(None, {}, {}, error.problems)
    try:
        collection = Collection.model_validate(raw)
        errors: list[Any] = []
    except ValidationError as error:
        collection = None
        errors = error.errors(include_url=False, include_input=False)
    if not isinstance(raw, dict):
        return Parsed(None, {}, {}, (Problem("", "not a JSON object"),))
    document = _Document(raw, errors)
    problems = (*_form_problems(errors, raw), *document.problems(atlas_id))
    return Parsed(collection, document.reviews, document.mappings, problems)


def _form_problems(errors: Iterable[Any], raw: Any) -> Iterator[Problem]:
    """One problem a place: the alternatives of a union are told in one sentence."""
    said: dict[str, list[str]] = {}
    for error in errors:
        said.setdefault(_place(error, raw), []).append(words(error))
    for place, messages in said.items():
        yield Problem(place, "; or: ".join(dict.fromkeys(messages)))


def _place(error: Any, raw: Any) -> str:
    """The pointer to what the document really holds: pydantic's locations also name the alternatives of a union."""
    found: list[object] = []
    value = raw
    for part in error["loc"]:
        if (isinstance(value, dict) and part in value) or (isinstance(value, list) and isinstance(part, int)):
            found.append(part)
            value = value[part]
    if error["type"] == "missing":
        found.append(error["loc"][-1])
    return strictjson.pointer(*found)


class _Document:
    """The items that are of the format, and the ids that all items name, sound or not."""

    def __init__(self, raw: Mapping[str, Any], errors: Iterable[Any]) -> None:
        bad = {error["loc"][:2] for error in errors}
        self._raw = raw
        self.subjects: Items[Subject] = self._items("subjects", Subject, bad)
        self.reviews: Items[Review] = self._items("reviews", Review, bad)
        self.tags: Items[TagAssignment] = self._items("tag_assignments", TagAssignment, bad)
        self.mappings: Items[DocumentMapping] = self._items("source_mappings", DocumentMapping, bad)
        self.subject_ids = self._ids("subjects")
        self.review_ids = self._ids("reviews")
        self.tag_ids = self._ids("tag_assignments")
        self.finding_ids = Counter(self._finding_ids())

    def problems(self, atlas_id: str | None) -> Iterator[Problem]:
        for name in ("subjects", "reviews", "tag_assignments", "source_mappings"):
            yield from self._duplicates(name)
        yield from self._about_the_source(atlas_id)
        for i, subject in self.subjects.items():
            yield from _about_subject(subject, strictjson.pointer("subjects", i))
        for i, review in self.reviews.items():
            yield from self._about_review(review, strictjson.pointer("reviews", i))
        for i, tag in self.tags.items():
            yield from self._about_tag(tag, strictjson.pointer("tag_assignments", i))
        for i, mapping in self.mappings.items():
            yield from self._about_mapping(mapping, strictjson.pointer("source_mappings", i))
        yield from self._about_the_whole()

    def _list(self, name: str) -> list[Any]:
        found = self._raw.get(name)
        return found if isinstance(found, list) else []

    def _items(self, name: str, model: type[Item], bad: set[tuple[Any, ...]]) -> dict[int, Item]:
        return {i: model.model_validate(v) for i, v in enumerate(self._list(name)) if (name, i) not in bad}

    def _ids(self, name: str) -> set[str]:
        return {v["id"] for v in self._list(name) if isinstance(v, dict) and isinstance(v.get("id"), str)}

    def _finding_ids(self) -> Iterator[str]:
        for review in self._list("reviews"):
            findings = review.get("findings") if isinstance(review, dict) else None
            for finding in findings if isinstance(findings, list) else []:
                if isinstance(finding, dict) and isinstance(finding.get("id"), str):
                    yield finding["id"]

    def _duplicates(self, name: str) -> Iterator[Problem]:
        seen: set[str] = set()
        for i, value in enumerate(self._list(name)):
            found = value.get("id") if isinstance(value, dict) else None
            if isinstance(found, str) and found in seen:
                yield Problem(strictjson.pointer(name, i, "id"), f"{found!r} is there twice")
            elif isinstance(found, str):
                seen.add(found)

    def _about_the_source(self, atlas_id: str | None) -> Iterator[Problem]:
        sources = [(i, s) for i, s in self.subjects.items() if s.level == "source"]
        if len(sources) != 1 and len(self.subjects) == len(self._list("subjects")):
            yield Problem("/subjects", f"exactly one subject is of level source, not {len(sources)}")
        expected = atlas_id or (sources[0][1].source_id if len(sources) == 1 else None)
        for i, subject in self.subjects.items():
            if expected is not None and subject.source_id != expected:
                at = strictjson.pointer("subjects", i, "source_id")
                yield Problem(at, f"is {subject.source_id!r}, but the review is of {expected!r}")
            elif subject.level == "source" and not is_header_text(subject.source_id, 500):
                at = strictjson.pointer("subjects", i, "source_id")
                yield Problem(at, "a source id names a stream: 1 to 500 printable ASCII characters")

    def _about_the_whole(self) -> Iterator[Problem]:
        if self._raw.get("execution_provenance", ...) is None:
            yield Problem("/execution_provenance", "there is none: a review is published with the commit that ran")
        syntheses = source_syntheses(self.subjects.values(), self.reviews.values())
        complete = len(self.reviews) == len(self._list("reviews")) and len(self.subjects) == len(self._list("subjects"))
        if len(syntheses) != 1 and complete:
            yield Problem("/reviews", f"exactly one review is the source's synthesis, not {len(syntheses)}")
        named = (r.attributes.get("review_pool_role") for r in self.reviews.values())
        roles = sorted({role for role in named if isinstance(role, str)})
        if len(roles) > 1:
            yield Problem("/reviews", f"the reviews name several review_pool_roles: {', '.join(roles)}")

    def _about_review(self, review: Review, at: str) -> Iterator[Problem]:
        yield from _unresolved([review.subject_id], self.subject_ids, f"{at}/subject_id", "subject", indexed=False)
        yield from _unresolved(
            review.derived_from_review_ids, self.review_ids, f"{at}/derived_from_review_ids", "review"
        )
        yield from _repeated(review.derived_from_review_ids, f"{at}/derived_from_review_ids")
        if review.id in review.derived_from_review_ids:
            yield Problem(f"{at}/derived_from_review_ids", "a review is not derived from itself")
        if review.supersedes_review_id is not None:
            place = f"{at}/supersedes_review_id"
            yield from _unresolved([review.supersedes_review_id], self.review_ids, place, "review", indexed=False)
            if review.supersedes_review_id == review.id:
                yield Problem(place, "a review does not supersede itself")
        yield from _actor_problem(review.reviewer, f"{at}/reviewer/id")
        yield from _repeated([f.id for f in review.findings], f"{at}/findings", "/id")
        for i, finding in enumerate(review.findings):
            if finding.kind == "observation" and finding.severity not in {None, "info"}:
                yield Problem(f"{at}/findings/{i}/severity", "an observation's severity is info or null")
        yield from _attribute_problems(review, f"{at}/attributes")

    def _about_tag(self, tag: TagAssignment, at: str) -> Iterator[Problem]:
        known = {"subject": self.subject_ids, "review": self.review_ids, "finding": self.finding_ids.keys()}
        yield from _unresolved(
            [tag.target.id], known[tag.target.kind], f"{at}/target/id", tag.target.kind, indexed=False
        )
        if tag.target.kind == "finding" and self.finding_ids[tag.target.id] > 1:
            yield Problem(f"{at}/target/id", "several findings have that id")
        yield from _unresolved(tag.evidence_review_ids, self.review_ids, f"{at}/evidence_review_ids", "review")
        if tag.supersedes_assignment_id is not None:
            place = f"{at}/supersedes_assignment_id"
            yield from _unresolved([tag.supersedes_assignment_id], self.tag_ids, place, "tag assignment", indexed=False)
        yield from _actor_problem(tag.assigned_by, f"{at}/assigned_by/id")

    def _about_mapping(self, mapping: DocumentMapping, at: str) -> Iterator[Problem]:
        yield from _unresolved([mapping.subject_id], self.subject_ids, f"{at}/subject_id", "subject", indexed=False)
        if mapping.status == "confirmed":
            if len(mapping.atlas_source_ids) != 1:
                yield Problem(f"{at}/atlas_source_ids", "a confirmed mapping names exactly one source")
            if not mapping.evidence:
                yield Problem(f"{at}/evidence", "a confirmed mapping cites evidence")
        if mapping.status == "unresolved":
            if mapping.atlas_source_ids:
                yield Problem(f"{at}/atlas_source_ids", "an unresolved mapping names no source")
            if mapping.applicability != "unknown":
                yield Problem(f"{at}/applicability", "an unresolved mapping's applicability is unknown")


def _about_subject(subject: Subject, at: str) -> Iterator[Problem]:
    for field in ("task_id", "task_path"):
        value = getattr(subject, field)
        if subject.level == "task" and value is None:
            yield Problem(f"{at}/{field}", f"a subject of level task has a {field}")
        if subject.level == "source" and value is not None:
            yield Problem(f"{at}/{field}", f"a subject of level source has no {field}")
    if subject.level == "source" and subject.row_index is not None:
        yield Problem(f"{at}/row_index", "a subject of level source has no row_index")


def _attribute_problems(review: Review, at: str) -> Iterator[Problem]:
    try:
        known = known_attributes(review)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        yield from (Problem(at + p.place, p.message) for p in _form_problems(faults, review.attributes))
        return
    native = known.verification
    if native is None:
        return
    if native.status == "verified" and native.score is None:
        yield Problem(f"{at}/verification/score", "what is verified has a score")
    if native.status != "verified" and (native.score is not None or native.passed is not None):
        yield Problem(f"{at}/verification", f"what is {native.status} has neither score nor passed")


def _unresolved(
    ids: Iterable[str], known: Container[str], at: str, kind: str, *, indexed: bool = True
) -> Iterator[Problem]:
    for i, found in enumerate(ids):
        if found not in known:
            yield Problem(f"{at}/{i}" if indexed else at, f"there is no {kind} {found!r} in the document")


def _repeated(ids: Iterable[str], at: str, suffix: str = "") -> Iterator[Problem]:
    seen: set[str] = set()
    for i, found in enumerate(ids):
        if found in seen:
            yield Problem(f"{at}/{i}{suffix}", f"{found!r} is there twice")
        seen.add(found)


def _actor_problem(person: Person, at: str) -> Iterator[Problem]:
    if not is_header_text(person.id, MAX_ACTOR):
        yield Problem(at, f"stands in an event's header: 1 to {MAX_ACTOR} printable ASCII characters")
