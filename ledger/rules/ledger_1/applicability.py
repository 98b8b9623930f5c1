"""Whether what was made on some revisions holds for the present ones, and why.

Data and verifier are compared each by itself, as typed identities. Another revision of the same kind is a change, and
makes a review stale, also where the review's was only claimed; a revision that is unknown, or of another kind, says
nothing, and a claimed one that is equal says nothing either. An attestation may show that
nothing changed between two revisions; it is named where it is honoured, and where it is not.
"""

from __future__ import annotations

from typing import NamedTuple

from ledger.rules.ledger_1.attestations import SUPPORTS, Coverage, Covered, coverage, finding, in_place_of
from ledger.rules.ledger_1.listing import Listing
from ledger.rules.ledger_1.model import Attestation, Settled
from ledger.rules.ledger_1.reasons import Reason, listed, plural, reason
from ledger.rules.ledger_1.review_model import Review
from ledger.rules.ledger_1.reviews import Basis, covered_by
from ledger.rules.ledger_1.revisions import Answer, kind

KINDS = {
    "native_revision": "native revision",
    "dataset_revision": "dataset revision",
    "grading_applicability": "grading applicability",
    "execution_implementation": "execution implementation",
}


class Applies(NamedTuple):
    """A derived applicability, why it is so, and the attestations that it rests on."""

    value: str | None
    reasons: list[Reason]
    honoured: tuple[Attestation, ...] = ()


def together(answers: tuple[Answer, Answer], *, unsupported: bool = False) -> str:
    """ "stale", "unknown" or "current", from the answers for data and verifier."""
    if "different" in answers:
        return "stale"
    return "unknown" if "unknown" in answers or unsupported else "current"


def applicability(basis: Basis | None, settled: Settled, listing: Listing) -> Applies:
    """Whether the review holds for the present data and verifier revisions."""
    if basis is None:
        text = "There is no review whose revisions could be compared."
        return Applies(None, [reason("applicability", "applicability.no-review", text, listing.events)])
    found = coverage(basis.covered, settled, listing)
    support = _support(basis, settled, listing)
    value = together((found.dataset, found.verifier), unsupported=bool(support.failed))
    reasons = [_why(value, found, basis, listing), *(support.failed if value != "stale" else [])]
    reasons += [_named(a, listing) for a in (*found.honoured, *support.held, *found.rejected)]
    return Applies(value, reasons, (*found.honoured, *support.held))


def pooled(review: Review, settled: Settled, listing: Listing) -> str:
    """The same of any published collection, in a word."""
    found = coverage(covered_by(review), settled, listing)
    unsupported = bool(review.rests_on) and any(
        supporting(event_id, settled, listing)[1] is not None for event_id in review.rests_on
    )
    return together((found.dataset, found.verifier), unsupported=unsupported)


class Support(NamedTuple):
    """The attestations that something rests on: those that hold, and why others do not."""

    held: list[Attestation]
    failed: list[Reason]


def _support(basis: Basis, settled: Settled, listing: Listing) -> Support:
    held: list[Attestation] = []
    failed: list[Reason] = []
    for event_id in basis.review.rests_on if basis.review else ():
        attestation, why = supporting(event_id, settled, listing)
        if attestation is None or why is not None:
            text = f"The review rests on an attestation that does not support it: {why}."
            events = (basis.pos, attestation.pos if attestation else None)
            failed.append(reason("applicability", "applicability.rests-on-unsupported", text, events))
        else:
            held.append(attestation)
    return Support(held, failed)


def supporting(event_id: str, settled: Settled, listing: Listing | None) -> tuple[Attestation | None, str | None]:
    """The attestation that stands for one that is rested on, and what is wrong with it; None: it supports."""
    recorded = settled.attestations.get(event_id)
    if recorded is None:
        return None, f"{event_id} is no recorded attestation of this source"
    now = in_place_of(recorded, settled)
    found = finding(now, listing.row.component_selector if listing else None)
    if found in SUPPORTS:
        return now, None
    who = event_id if now is recorded else f"{now.id}, which superseded {event_id},"
    if found == "incomplete":
        return now, f"{who} is incomplete, and supports nothing"
    return now, f"{who} found differences; a differing comparison supports nothing until the change is validated"


def _why(value: str, found: Coverage, basis: Basis, listing: Listing) -> Reason:
    covered, present = basis.covered, listing.revisions
    pairs = (
        ("data", found.dataset, covered.dataset, present.dataset),
        ("verifier", found.verifier, covered.verifier or _changed_claim(found, covered), present.verifier),
    )
    rests_on = (*basis.events, *listing.events)
    if value == "stale":
        changed = [f"{what} {now} instead of {then}" for what, answer, then, now in pairs if answer == "different"]
        claimed = covered.claimed is not None and found.verifier == "different"
        told = f" (as the {_teller(basis)} names it; no execution showed it)" if claimed else ""
        text = f"The source changed since the review: {listed(changed)}{told}."
        return reason("applicability", "applicability.revision-changed", text, rests_on)
    unknown = [_unknown(what, then, now, basis) for what, answer, then, now in pairs if answer == "unknown"]
    if unknown:
        text = f"Unknown is equal to nothing: {listed(unknown)}."
        return reason("applicability", "applicability.revision-unknown", text, rests_on)
    if found.honoured:
        text = f"The review covers the present revisions, by {plural(len(found.honoured), 'attestation')}."
        return reason("applicability", "applicability.attested", text, rests_on)
    text = "The review covers the present data and verifier revisions."
    return reason("applicability", "applicability.revisions-equal", text, rests_on)


def _changed_claim(found: Coverage, covered: Covered) -> str | None:
    """The revision that was claimed, where it is known to be another one than the present."""
    return covered.claimed if found.verifier == "different" else None


def _teller(basis: Basis) -> str:
    """Who names the verifier revision."""
    return (basis.review.verifier_revision_basis if basis.review else "inventory") or "review"


def _unknown(what: str, then: str | None, now: str | None, basis: Basis) -> str:
    if then is not None and now is not None:
        return f"a {what} revision that is a {kind(then)} cannot be compared with a {kind(now)}"
    who = [name for name, revision in (("the review", then), ("the catalogue", now)) if revision is None]
    said = f"{' and '.join(who)} {'do' if len(who) > 1 else 'does'} not say which {what} revision"
    review = basis.review
    if what == "verifier" and then is None and review is not None and review.verifier_revision is not None:
        teller = review.verifier_revision_basis or "nobody"
        return f"{said} ran: {review.verifier_revision} is the word of {teller}, not of the execution"
    return said


def _named(attestation: Attestation, listing: Listing) -> Reason:
    found = finding(attestation, listing.row.component_selector).replace("_", " and ")
    honoured = finding(attestation, listing.row.component_selector) in SUPPORTS
    beyond = f" It could not see {listed(attestation.unchecked)}." if attestation.unchecked else ""
    text = (
        f"The {KINDS.get(attestation.kind, attestation.kind)} attestation of {attestation.subject} is "
        f"{'honoured' if honoured else 'not honoured'}: {found}, within its scope.{beyond}"
    )
    rule = "applicability.attestation-honoured" if honoured else "applicability.attestation-not-honoured"
    return reason("applicability", rule, text, [attestation.pos])
