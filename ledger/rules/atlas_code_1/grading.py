"""Grading bindings: proof that a review covers the grading code that the catalogue names.

A source is enrolled by its first binding, of whatever review, and for ever. From then on the verifier revision is
ignored: the review is stale unless a valid binding covers it. The first binding of a review, a source revision and a
grading revision stays; a later one, right or wrong, changes nothing.

A binding is valid iff all of these hold:

  - the catalogue's row names a grading revision, and the binding is for that one;
  - it names the present review, and the source revision that this review covers;
  - it says that it is equivalent: every program that ran equals that of the manifest;
  - the verifier revision that it captured is the one that the review is said to cover.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from ledger.rules import RuleEvent
from ledger.rules.atlas_code_1.columns import Columns
from ledger.rules.atlas_code_1.listing import Listing
from ledger.rules.atlas_code_1.model import Binding, Facts
from ledger.rules.atlas_code_1.reading import AttestationRecorded, GradingApplicability


class Grading(NamedTuple):
    """Whether the grading of an enrolled source is proved, and by which binding; why not, where it is not."""

    binding: Binding | None
    against: str | None

    @property
    def valid(self) -> bool:
        return self.against is None


def attested(facts: Facts, event: RuleEvent, said: AttestationRecorded) -> Facts:
    """Other kinds of attestation are nothing to the applet."""
    claim = said.grading_applicability
    if claim is None:
        return facts
    return replace(facts, bindings=(*facts.bindings, _binding(claim, event)))


def _binding(claim: GradingApplicability, event: RuleEvent) -> Binding:
    return Binding(
        review=claim.review,
        source_revision=claim.source_revision,
        captured_verifier_revision=claim.captured_verifier_revision,
        grading_revision=claim.grading_revision,
        equivalent=all(
            p.executed_sha256 is not None and p.executed_sha256 == p.manifest_sha256 for p in claim.programs
        ),
        pos=event.pos,
        sample=event.sample,
    )


def _key(binding: Binding) -> tuple[str, str, str]:
    return binding.review, binding.source_revision, binding.grading_revision


def enrolled(facts: Facts) -> bool:
    return bool(facts.bindings)


def grading(facts: Facts, row: Columns, listed: Listing) -> Grading:
    """How the present review stands, of a source that is enrolled."""
    named = listed.row.grading_revision
    if named is None:
        return Grading(None, "the catalogue's row names no grading revision")
    wanted = (row.review.id if row.review else None, row.source_revision, named)
    binding = next((b for b in facts.bindings if _key(b) == wanted), None)
    if binding is None:
        return Grading(None, f"no binding covers the review at the grading revision {named}")
    if not binding.equivalent:
        return Grading(binding, "the first binding, which stays, does not say that the programs are equal")
    if binding.captured_verifier_revision != row.verifier_revision:
        captured = f"the binding captured the verifier revision {binding.captured_verifier_revision}"
        return Grading(binding, f"{captured}, and the review is said to cover {row.verifier_revision}")
    return Grading(binding, None)
