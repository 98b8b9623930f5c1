"""What the applet's trigger asks of a resolution, and nothing else.

One published collection of the source, other than the one with the defect's evidence and later than the defect, has

  - a review that claims for the defect's issue that the fix was validated (`fix_validated` exactly true, declared by
    the review itself), on the present data revision, and on the present verifier revision, where null equals null;
  - a native run that executed the tests and was verified: of any task, at any revision, by any review.

Neither a recorded validation, nor a replay of the failing inputs, nor a control is looked at. "Later" is later in the
log than the first confirmation, so that a reopened defect can be resolved by the collection that resolved it before.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledger.core.errors import Problem
from ledger.rules.atlas_code_1.listing import Listing, Revisions
from ledger.rules.atlas_code_1.model import Claim, Defect, Facts
from ledger.rules.atlas_code_1.reading import DefectResolved


def against_resolution(said: DefectResolved, facts: Facts, listing: Listing | None) -> Iterator[Problem]:
    """Every reason against the resolution."""
    defect = facts.defects.get(said.defect)
    if defect is None or defect.status != "open":
        status = defect.status if defect else "unknown"
        yield Problem("/defect", f"{said.defect!r} is {status}; only an open defect can be resolved")
        return
    review = next((r for r in facts.reviews if r.id == said.review), None)
    if review is None:
        yield Problem("/review", f"no review {said.review} of this source is published; publish the new review first")
        return
    if review.id == defect.review:
        yield Problem("/review", "the review is the one that holds the defect's evidence; a new one is needed")
    if defect.created is not None and review.pos < defect.created:
        yield Problem("/review", "the review was published before the defect was confirmed; publish a new one")
    present = listing.revisions if listing else Revisions(None, None)
    if not any(_says_fixed(claim, defect, present) for claim in review.tally.claims):
        yield _no_claim(defect, present)
    if not review.tally.native_runs.count:
        yield Problem("/review", "holds no verified native run (runtime_execution, tests executed)")


def _says_fixed(claim: Claim, defect: Defect, present: Revisions) -> bool:
    """Null equals null for the verifier revision, whose key must be there; a null data revision equals nothing."""
    on_data = present.dataset is not None and claim.dataset_revision == present.dataset
    on_verifier = claim.names_verifier and claim.verifier_revision == present.verifier
    return claim.issue_url == _issue(defect) and claim.fix_validated and on_data and on_verifier


def _issue(defect: Defect) -> str:
    """A defect without an issue has no row in the applet; here its id stands for the issue."""
    return defect.issue_url or defect.id


def _no_claim(defect: Defect, present: Revisions) -> Problem:
    return Problem(
        "/review",
        f"no review in it has an entry in attributes.resolved_verifier_issues with the issue_url {_issue(defect)}, the "
        f"dataset_revision {present.dataset or '(unknown at present, so that none can equal it)'}, the "
        f"verifier_revision {present.verifier or 'null'}, and fix_validated true",
    )
