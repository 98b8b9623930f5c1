"""Attestations: recorded comparisons, what each shows, and whether revisions cover the present ones because of them.

Nothing is equal because somebody says so: a finding is taken from the pairs that were recorded. The latest attestation
of a kind and subject supersedes the earlier ones; of those that compare the same two revisions the latest decides too,
whatever subject it was given. So a later one that contradicts withdraws what an earlier one supported.

Bytes, component selection and verifier are claims of their own: an attestation of the data says nothing of the
verifier, and one of the verifier nothing of the data.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from ledger.rules import RuleEvent
from ledger.rules.ledger_1.listing import Listing
from ledger.rules.ledger_1.model import Attestation, SelectionClaim, Settled, Sides
from ledger.rules.ledger_1.reading import (
    AttestationRecorded,
    DatasetRevision,
    ExecutionImplementation,
    GradingApplicability,
    NativeRevision,
    Selection,
)
from ledger.rules.ledger_1.revisions import Answer, compare, kind

Finding = Literal["unchanged", "changed", "changed_validated", "incomplete"]
SUPPORTS: frozenset[Finding] = frozenset({"unchanged", "changed_validated"})
_Pair = tuple[str | None, str | None]


class Covered(NamedTuple):
    """What a review, a report or a validation was made on."""

    dataset: str | None
    verifier: str | None
    executed_commit: str | None = None
    review: str | None = None
    claimed: str | None = None
    """A verifier revision that somebody names, and no execution showed: it can make stale, and never current."""


class Coverage(NamedTuple):
    """How that compares with the present revisions."""

    dataset: Answer
    verifier: Answer
    honoured: tuple[Attestation, ...]
    """Attestations without which an answer would be another."""
    rejected: tuple[Attestation, ...]
    """Those that compare these revisions, and do not show that they are unchanged."""


def recorded(event: RuleEvent, said: AttestationRecorded) -> Attestation:
    """What was found, by the claim of the attestation's kind."""
    found: dict[str, Any] = {}
    if said.native_revision is not None:
        found = _native(said.native_revision)
    elif said.dataset_revision is not None:
        found = _dataset(said.dataset_revision)
    elif said.grading_applicability is not None:
        found = _grading(said.grading_applicability)
    elif said.execution_implementation is not None:
        found = _execution(said.execution_implementation)
    return Attestation(
        id=event.id,
        pos=event.pos,
        kind=said.kind,
        subject=said.subject,
        scope=said.scope,
        sample=event.sample,
        **found,
    )


def finding(attestation: Attestation, selector: str | None) -> Finding:
    """What the comparison shows, for a source of which the catalogue selects these rows; None: the whole files."""
    sides, selection = attestation.sides, attestation.selection
    if sides.different or (selection is not None and not selection.equal):
        return "changed_validated" if attestation.validated else "changed"
    if sides.missing or not sides.equal or not attestation.clean:
        return "incomplete"
    if attestation.kind == "dataset_revision" and selector and not _selects(selection, selector):
        return "incomplete"
    return "unchanged"


def standing(settled: Settled) -> tuple[Attestation, ...]:
    """The latest of each kind and subject, in log order."""
    if not settled.attestations:
        return ()
    latest = {(a.kind, a.subject): a for a in settled.attestations.values()}
    return tuple(sorted(latest.values(), key=lambda a: a.pos))


def in_place_of(attestation: Attestation, settled: Settled) -> Attestation:
    """The attestation that stands for its kind and subject: itself, or the one that superseded it."""
    same = (a for a in standing(settled) if (a.kind, a.subject) == (attestation.kind, attestation.subject))
    return next(same, attestation)


def coverage(covered: Covered, settled: Settled, listing: Listing) -> Coverage:
    """Whether what was made on these revisions holds for the present ones."""
    present = listing.revisions
    dataset, verifier = compare(covered.dataset, present.dataset), _verifier(covered, present.verifier)
    if not settled.attestations or (dataset == "same" and verifier == "same"):
        return Coverage(dataset, verifier, (), ())
    known, selector = standing(settled), listing.row.component_selector
    bearing: list[Attestation] = []
    if dataset != "same" and (data := _latest(_of_data(known, covered, listing))):
        bearing += data
        dataset = "same" if finding(data[0], selector) == "unchanged" else dataset
    if verifier != "same":
        latest = [*_latest(_of_native(known, covered, listing)), *_latest(_of_grading(known, covered, listing))]
        bearing += latest
        verifier = "same" if any(finding(a, selector) == "unchanged" for a in latest) else verifier
    honoured = tuple(a for a in bearing if finding(a, selector) == "unchanged")
    return Coverage(dataset, verifier, honoured, tuple(a for a in bearing if a not in honoured))


def _verifier(covered: Covered, present: str | None) -> Answer:
    if covered.verifier is not None or compare(covered.claimed, present) != "different":
        return compare(covered.verifier, present)
    return "different"


def _latest(candidates: Iterable[Attestation]) -> list[Attestation]:
    """Of those that compare the same revisions the last one decides."""
    return list(candidates)[-1:]


def _of_data(known: Iterable[Attestation], covered: Covered, listing: Listing) -> Iterable[Attestation]:
    wanted = (covered.dataset, listing.revisions.dataset)
    return (a for a in known if a.kind == "dataset_revision" and (a.then, a.now) == wanted)


def _of_native(known: Iterable[Attestation], covered: Covered, listing: Listing) -> Iterable[Attestation]:
    present = listing.revisions.verifier
    if present is None:
        return ()
    # A verifier that is pinned by a commit of the registry is unchanged at the registry's own, later commit too.
    now = {present, listing.row.revision} if kind(present) == "commit" else {present}
    then = {covered.executed_commit, covered.verifier}
    return (a for a in known if a.kind == "native_revision" and a.then in then and a.now in now)


def _of_grading(known: Iterable[Attestation], covered: Covered, listing: Listing) -> Iterable[Attestation]:
    wanted = (covered.verifier, listing.revisions.verifier, covered.review, covered.dataset)
    return (
        a for a in known if a.kind == "grading_applicability" and (a.then, a.now, a.review, a.source_revision) == wanted
    )


def _native(claim: NativeRevision) -> dict[str, Any]:
    sides = _sides([(o.reviewed_object, o.registry_object) for o in claim.objects], absent_is_missing=False)
    return {"then": claim.reviewed_commit, "now": claim.registry_commit, "clean": not claim.dirty, "sides": sides}


def _dataset(claim: DatasetRevision) -> dict[str, Any]:
    return {
        "then": claim.executed_revision,
        "now": claim.current_revision,
        "sides": _sides([(f.executed_sha256, f.current_sha256) for f in claim.files], absent_is_missing=True),
        "selection": None if claim.selection is None else _selection(claim.selection),
    }


def _grading(claim: GradingApplicability) -> dict[str, Any]:
    return {
        "then": claim.captured_verifier_revision,
        "now": claim.grading_revision,
        "clean": claim.manifest_sha256 == claim.grading_revision,
        "review": claim.review,
        "source_revision": claim.source_revision,
        "sides": _sides([(p.executed_sha256, p.manifest_sha256) for p in claim.programs], absent_is_missing=True),
        "unchecked": claim.unchecked,
    }


def _execution(claim: ExecutionImplementation) -> dict[str, Any]:
    pairs: list[_Pair] = [(d.original_sha256, d.executed_sha256) for d in claim.definitions]
    pairs.append((claim.original_closure_sha256, claim.executed_closure_sha256))
    validated = claim.validation is not None and bool(claim.validation.evidence)
    return {"sides": _sides(pairs, absent_is_missing=False), "validated": validated}


def _sides(pairs: Iterable[_Pair], *, absent_is_missing: bool) -> Sides:
    """Equal, different and missing pairs. What is on one side alone is a difference, or was not compared at all."""
    equal = different = missing = 0
    for one, other in pairs:
        absent = (one is None) + (other is None)
        if absent == 2 or (absent and absent_is_missing):
            missing += 1
        elif one == other:
            equal += 1
        else:
            different += 1
    return Sides(equal, different, missing)


def _selection(claim: Selection) -> SelectionClaim:
    hashes = (claim.executed_rows_sha256, claim.current_rows_sha256)
    hashed = None not in hashes
    return SelectionClaim(
        current_selector=claim.current_selector,
        equal=claim.executed_selector == claim.current_selector
        and claim.executed_rows == claim.current_rows
        and (not hashed or hashes[0] == hashes[1]),
        hashed=hashed,
    )


def _selects(selection: SelectionClaim | None, selector: str) -> bool:
    """Whether the claim is of the rows that the catalogue names, by the rows themselves."""
    return selection is not None and selection.hashed and selection.current_selector == selector
