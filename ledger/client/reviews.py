"""A review run's directory into events: evidence first, one part a review and a tag, then `review.published`.

The directory is that of the Atlas review format 0.3.0, as this release has it: a schema that lies in the run is stored
and not consulted. A run is read whole or refused whole, with every problem at "FILE#/json/pointer". Ids come from the
document's SHA-256, so publishing a run twice is one publication. What a run does not say (dates, revisions) stays
unknown; where its files lay is not told.

    run = read_review(directory, atlas_id="MarinSkyRL:svamp")
    revision, basis = covered_verifier(run, catalogue=source.verifier_revision)
    writer.publish(plan_review(run, by=me, verifier_revision=revision, verifier_revision_basis=basis))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from ledger.client import faults
from ledger.client.drafts import Actor, Draft, Publication, Upload, parts_of
from ledger.client.review_checks import read_collection
from ledger.client.review_files import RunFiles, all_evidence, evidence_problems
from ledger.client.review_format import (
    Collection,
    known_attributes,
    sole_source,
    source_syntheses,
)
from ledger.client.review_parts import ReviewParts, cited
from ledger.core.errors import InvalidInput, Problem
from ledger.core.ids import sha256_hex
from ledger.core.strictjson import pointer
from ledger.events.fields import ArtifactRef
from ledger.events.reviews import (
    ExecutionProvenance,
    ReviewPublished,
)

DOCUMENT: Final = "quality-reviews.json"
RUN_FILES: Final = ("run.json", "quality-review.schema.json", "artifact-manifest.json")
"""What describes the run itself; published when it is there."""
MAX_PAYLOAD: Final = 1024 * 1024
MAX_CITED: Final = 2_000
"""So many artifacts fit into one payload. The closing event names those of its parts too while they are so few."""

_SOUND: Final = "review that can be published"
Role = Literal["verifier_defect", "verifier_revision_attestation"]
Basis = Literal["execution", "catalogue", "publisher"]


class Standing(NamedTuple):
    """What a publication says of a run beside what its document says."""

    verifier_revision: str | None
    basis: Basis | None
    role: Role | None
    rests_on: tuple[str, ...]


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
    files = RunFiles(directory)
    content = _content(path, files)
    parsed = read_collection(content, atlas_id=atlas_id)
    problems = [*parsed.problems, *evidence_problems(parsed.reviews, parsed.mappings, files)]
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
        evidence=files.uploads(e.snapshot_path for e in all_evidence(parsed.collection)),
        run_files=files.uploads(run_files),
    )


def covered_verifier(
    run: ReviewRun, *, catalogue: str | None, named: str | None = None
) -> tuple[str | None, Basis | None]:
    """The verifier revision that a rating covers, and who says so: the run, if its own record shows that revision.

    Args:
        catalogue: The source's verifier revision as the catalogue has it now.
        named: The one that the publisher names, if any.
    """
    revision, says = (named, "publisher") if named is not None else (catalogue, "catalogue")
    if revision is None:
        return None, None
    executed = revision in executed_identities(run.collection.execution_provenance)
    return revision, "execution" if executed else "publisher" if says == "publisher" else "catalogue"


def executed_identities(provenance: ExecutionProvenance | None) -> frozenset[str]:
    """What the run's record says that it graded with. A commit does not name a tree with changes of its own."""
    if provenance is None:
        return frozenset()
    commits = set() if provenance.marinskyrl_dirty else {provenance.marinskyrl_commit, provenance.harbor_commit}
    return frozenset(found for found in {*commits, provenance.grading_revision} if found is not None)


def plan_review(
    run: ReviewRun,
    *,
    by: Actor,
    verifier_revision: str | None,
    verifier_revision_basis: Basis | None,
    role: Role | None = None,
    rests_on: Iterable[str] = (),
    principal: str | None = None,
    tags: Iterable[str] = (),
) -> Publication:
    """The run as one publication of its source.

    A tag assignment that the document itself marks as retracted is no event: it stands in the document alone.

    Args:
        by: Who publishes. A part's actor is its reviewer, or who assigned the tag.
        verifier_revision: The verifier revision that the rating covers, and who says so; see `covered_verifier`.
        role: What a supplemental collection is for, where its document does not say it.
        rests_on: Ids of attestations of the source.

    Raises:
        InvalidInput: reason TOO_LARGE, naming each review that does not fit into one event; reason USAGE, if the
            document names another role.
    """
    made = ReviewParts(run.collection, run.review, run.evidence, principal, tuple(tags))
    parts = tuple(made.drafts())
    _check_sizes(run, parts)
    basis = verifier_revision_basis if verifier_revision is not None else None
    standing = Standing(verifier_revision, basis, _role(run.collection, role), tuple(rests_on))
    closing = _closing(run, made, by, parts, standing)
    distinct = {u.sha256: u for u in (run.document, *run.run_files.values(), *run.evidence.values())}
    counted = f"{len(run.collection.reviews)} reviews, {len(distinct)} artifacts"
    return Publication(
        parts=parts,
        closing=closing,
        uploads=tuple(distinct.values()),
        summary=f"{run.source_id}: review {run.review[:12]}, {counted}",
    )


def _content(path: Path, files: RunFiles) -> bytes:
    found = files.find(DOCUMENT)
    if isinstance(found, str):
        remedy = f"Name the folder of a review run: {DOCUMENT} lies in it, as a file of its own."
        raise faults.refused(path, _SOUND, [Problem(str(path), found)], remedy=remedy)
    try:
        return found.read_bytes()
    except OSError as error:
        raise faults.unreadable(path, error) from None


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


def _closing(run: ReviewRun, made: ReviewParts, by: Actor, parts: Sequence[Draft], standing: Standing) -> Draft:
    document = run.collection
    provenance = document.execution_provenance
    payload = ReviewPublished(
        collection=made.collection,
        review=run.review,
        source_id=run.source_id,
        parts=parts_of(parts),
        document=cited(DOCUMENT, run.document),
        schema_version=document.schema_version,
        created_at=document.created_at,
        dataset_revision=run.dataset_revision,
        verifier_revision=standing.verifier_revision,
        verifier_revision_basis=standing.basis,
        executed_commit=provenance.marinskyrl_commit if provenance is not None else None,
        reference_commit=_reference_commit(document),
        execution_provenance=provenance,
        review_pool_role=standing.role,
        rests_on=list(standing.rests_on),
        artifacts=_artifacts(run),
        source_mappings=[made.mapping(mapping) for mapping in document.source_mappings],
    )
    return made.draft("review.published", "closing", payload, by)


def _artifacts(run: ReviewRun) -> list[ArtifactRef]:
    own = [cited(name, upload) for name, upload in run.run_files.items()]
    of_parts = [cited(name, upload) for name, upload in run.evidence.items()]
    return own + of_parts if len(own) + len(of_parts) <= MAX_CITED else own


def _role(document: Collection, named: Role | None) -> Role | None:
    """The role of the collection: as its reviews say, or as it is named where they say nothing."""
    roles = (known_attributes(review).review_pool_role for review in document.reviews)
    said = next((role for role in roles if role is not None), None)
    if named is not None and said not in {None, named}:
        raise InvalidInput(
            f"the document says that its role is {said}, not {named}",
            reason="USAGE",
            remedy="Leave the role out: the document's own counts.",
        )
    return said or named


def _reference_commit(document: Collection) -> str | None:
    """The commit that was looked at: as the source's synthesis says, or else the only one that the reviews name."""
    for synthesis in source_syntheses(document.subjects, document.reviews):
        said = known_attributes(synthesis).inspected_marinskyrl_commit
        if said is not None:
            return said
    named = {known_attributes(review).inspected_marinskyrl_commit for review in document.reviews} - {None}
    return named.pop() if len(named) == 1 else None
