"""What it takes to resolve a defect: a fix validated on the present revisions, and a new review that says so.

Closing an issue or merging a fix is not enough. Every saved failing input passes when it is replayed, and adverse
controls are treated rightly; the review was published since the confirmation, ran the native verifier on the present
data, and names the issue. Unknown revisions cannot be equal, so nothing is resolved on them, and a native run that does
not say which data it ran on does not count. The verifier is named by its content, a commit or a digest, and by what was
executed: a version that somebody gave it, or the word of the catalogue, does not tell which code was repaired.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledger.core.errors import Problem
from ledger.rules.ledger_1.listing import Listing
from ledger.rules.ledger_1.model import Defect, Settled, Validation
from ledger.rules.ledger_1.reading import DefectResolved
from ledger.rules.ledger_1.reasons import plural
from ledger.rules.ledger_1.review_model import Claim, Review
from ledger.rules.ledger_1.reviews import covered_by
from ledger.rules.ledger_1.revisions import Revisions, is_content


def against_resolution(said: DefectResolved, settled: Settled, listing: Listing | None) -> Iterator[Problem]:
    """Every reason against the resolution."""
    defect = settled.defects.get(said.defect)
    if defect is None or defect.status != "open":
        status = defect.status if defect else "unknown"
        yield Problem("/defect", f"{said.defect!r} is {status}; only an open defect can be resolved")
        return
    present = listing.revisions if listing else Revisions(None, None)
    yield from _present(present)
    yield from _validation(said, defect, present)
    yield from _review(said, settled, defect, present)


def _present(present: Revisions) -> Iterator[Problem]:
    if present.dataset is None:
        yield Problem("/defect", "the source's dataset revision is unknown: revise the source with --dataset-revision")
    if present.verifier is None:
        yield Problem(
            "/defect", "the source's verifier revision is unknown: revise the source with --verifier-revision"
        )


def _validation(said: DefectResolved, defect: Defect, present: Revisions) -> Iterator[Problem]:
    place = "/validation"
    validation = next((v for v in defect.validations if v.id == said.validation), None)
    if validation is None:
        yield Problem(place, f"{said.validation!r} is no validation of {defect.id!r}; record one first")
        return
    if defect.opened is not None and validation.pos < defect.opened:
        yield Problem(place, "was recorded before the defect was last confirmed or reopened; validate the fix again")
    covered = Revisions(validation.dataset_revision, validation.verifier_revision)
    yield from _not_on_present(place, "the validation", covered, present)
    yield from _no_content(place, "the validation", covered.verifier)
    yield from _not_validated(place, validation, defect)


def _not_on_present(place: str, what: str, covered: Revisions, present: Revisions) -> Iterator[Problem]:
    """Problems unless both revisions are known and equal to the source's own."""
    for name, then, now in zip(("dataset", "verifier"), covered, present, strict=True):
        if then is None:
            yield Problem(place, f"{what} does not say which {name} revision it covers")
        elif now is not None and then != now:
            yield Problem(place, f"{what} covers the {name} revision {then}, and the source is at {now}")


def _not_validated(place: str, validation: Validation, defect: Defect) -> Iterator[Problem]:
    for sha256 in sorted(set(defect.native_inputs) - set(validation.replayed)):
        yield Problem(place, f"the failing input {sha256} has no replay that passed")
    if validation.failed_replays:
        yield Problem(place, f"{plural(validation.failed_replays, 'replay')} did not pass")
    if not validation.adverse_controls:
        yield Problem(place, "no control with an incorrect, empty, trivial or perturbed answer was run")
    if validation.failed_controls:
        yield Problem(place, f"{plural(validation.failed_controls, 'control')} did not pass")
    if not validation.evidence:
        yield Problem(place, "no evidence is cited; link what the validation saw")


def _review(said: DefectResolved, settled: Settled, defect: Defect, present: Revisions) -> Iterator[Problem]:
    place = "/review"
    review = next((r for r in settled.reviews if r.id == said.review), None)
    if review is None:
        yield Problem(place, f"no review {said.review} of this source is published; publish the new review first")
        return
    if review.superseded is not None:
        yield Problem(place, "the review is superseded; name one that stands")
    if review.id == defect.review:
        yield Problem(place, "the review is the one that holds the defect's evidence; a new one is needed")
    if defect.opened is not None and review.pos < defect.opened:
        yield Problem(place, "the review was published before the defect was last confirmed or reopened; review again")
    yield from _revisions(place, review, present)
    if present.dataset is None or present.dataset not in {run.dataset_revision for run in review.tally.runs}:
        yield Problem(
            place,
            "holds no verified native run (runtime_execution, tests executed) that says that it ran on the present "
            "dataset revision",
        )
    if not any(_says_fixed(claim, defect, present) for claim in review.tally.claims):
        issue = defect.issue_url or "null (issue missing)"
        yield Problem(
            place,
            "no review in it has an entry in attributes.resolved_verifier_issues with the issue_url "
            f"{issue}, the present dataset_revision and verifier_revision, and fix_validated true",
        )


def _revisions(place: str, review: Review, present: Revisions) -> Iterator[Problem]:
    """A verifier revision that the execution did not show is unknown."""
    executed = covered_by(review).verifier
    if executed is None and review.verifier_revision is not None:
        basis = review.verifier_revision_basis or "nobody"
        yield Problem(
            place,
            f"the review's verifier revision is the word of {basis}, not of the execution; publish a review whose run "
            "recorded which verifier it executed",
        )
        yield from _not_on_present(place, "the review", Revisions(review.dataset_revision, present.verifier), present)
        return
    yield from _not_on_present(place, "the review", Revisions(review.dataset_revision, executed), present)
    yield from _no_content(place, "the review", executed)


def _no_content(place: str, what: str, verifier: str | None) -> Iterator[Problem]:
    if verifier is not None and not is_content(verifier):
        yield Problem(
            place,
            f"{what} names the verifier by the version {verifier}, which does not say which code it is; name its "
            "commit or digest",
        )


def _says_fixed(claim: Claim, defect: Defect, present: Revisions) -> bool:
    """A claim on revisions that are unknown, of either side, says nothing."""
    names_issue = claim.issue_url == defect.issue_url or (defect.issue_url is None and claim.issue_url == defect.id)
    known = None not in present
    return (
        names_issue and claim.fix_validated and known and (claim.dataset_revision, claim.verifier_revision) == present
    )
