"""What resolutions are worth now: whether each holds for the present revisions, and whether two people stood behind it.

A resolution is judged again at every revision. One that is stale does not reopen its defect, for nobody saw it fail:
it is listed, and said. Independence is established where the principals that confirmed and resolved are both known and
differ.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ledger.rules.ledger_1 import defects
from ledger.rules.ledger_1.applicability import together
from ledger.rules.ledger_1.attestations import Covered, coverage
from ledger.rules.ledger_1.listing import Listing
from ledger.rules.ledger_1.model import Attestation, Defect, DefectStatus, Settled
from ledger.rules.ledger_1.reasons import Reason, reason

_HOLDS: Final = {
    "current": "the resolution holds for the present revisions",
    "stale": "the data or verifier revision changed since; the defect stays resolved until it is seen again",
    "unknown": "whether the resolution holds for the present revisions is unknown",
}


class Resolved(NamedTuple):
    """A resolved defect, judged at the present revisions."""

    defect: Defect
    applicability: str
    independence: str
    honoured: tuple[Attestation, ...]


def resolved(settled: Settled, listing: Listing) -> list[Resolved]:
    return [_judge(defect, settled, listing) for defect in defects.in_status(settled, "resolved")]


def why(found: Resolved) -> Reason:
    defect, resolution = found.defect, found.defect.resolution
    who = (
        "confirmed and resolved by different principals"
        if found.independence == "established"
        else "independence not established: the same principal, or one that is not known, confirmed and resolved it"
    )
    text = f"{defect.id} is resolved: {_HOLDS[found.applicability]}; {who}."
    events = (defect.confirmed, resolution.pos if resolution else defect.pos, *(a.pos for a in found.honoured))
    return reason("quality", f"quality.resolution-{found.applicability}", text, events)


def shown(settled: Settled, status: DefectStatus) -> list[dict[str, Any]]:
    """The defects that are not resolved, in a status, as `Defect` in audit.proto has them."""
    return [_fields(defect, None, None) for defect in defects.in_status(settled, status)]


def shown_resolved(found: list[Resolved]) -> list[dict[str, Any]]:
    return [_fields(one.defect, one.applicability, one.independence) for one in found]


def _judge(defect: Defect, settled: Settled, listing: Listing) -> Resolved:
    resolution = defect.resolution
    assert resolution is not None
    validation = next((v for v in defect.validations if v.id == resolution.validation), None)
    covered = Covered(
        dataset=validation.dataset_revision if validation else None,
        verifier=validation.verifier_revision if validation else None,
        review=resolution.review,
    )
    found = coverage(covered, settled, listing)
    principals = (defect.confirmed_by, resolution.principal)
    apart = None not in principals and principals[0] != principals[1]
    return Resolved(
        defect,
        together((found.dataset, found.verifier)),
        "established" if apart else "not_established",
        found.honoured,
    )


def _fields(defect: Defect, applicability: str | None, independence: str | None) -> dict[str, Any]:
    return {
        "id": defect.id,
        "kind": defect.kind,
        "status": defect.status,
        "summary": defect.summary,
        "issue_url": defect.issue_url,
        "pos": defect.pos,
        "applicability": applicability,
        "independence": independence,
    }
