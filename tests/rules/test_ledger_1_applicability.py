"""What holds for the present revisions: typed identities, attestations, resolutions judged again."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.rules.ledger_1.revisions import compare, is_content, kind

from . import builders
from .builders import confirmed, sha, validation
from .ledger_1_builders import (
    DATA,
    DIGEST,
    EXECUTED,
    ON_PRESENT,
    OTHER_DATA,
    OTHER_VERIFIER,
    REGISTRY,
    VERIFIER,
    Told,
    same_code,
    same_data,
    same_execution,
    same_grading,
    selection,
)

SELECTOR = "split == 'train'"


def reviewed(**fields: Any) -> Told:
    """A Good source with a current report."""
    story = Told().listed()
    story.review("r1", **fields)
    story.report()
    return story


def finding_of(story: Told, number: int = -1) -> tuple[str, bool]:
    attestation = story.shown()["attestations"][number]
    return attestation["finding"], attestation["honoured"]


class TestRow28RevisionsAreTypedIdentities:
    @pytest.mark.parametrize(
        ("revision", "expected"),
        [
            ("a" * 40, "commit"),
            ("a" * 64, "digest"),
            ("v1.3.0", "version"),
            ("A" * 40, "version"),
            ("a" * 41, "version"),
            ("a" * 39 + "\n", "version"),
            ("a" * 40 + "\n", "version"),
        ],
    )
    def test_a_revision_has_a_kind(self, revision, expected):
        assert kind(revision) == expected
        assert is_content(revision) == (expected != "version")

    @pytest.mark.parametrize(
        ("then", "now", "expected"),
        [
            (DATA, DATA, "same"),
            (DATA, OTHER_DATA, "different"),
            (DIGEST, "6" * 64, "different"),
            ("v1", "v2", "different"),
            (DATA, DIGEST, "unknown"),
            (DATA, "v2", "unknown"),
            (None, DATA, "unknown"),
            (DATA, None, "unknown"),
            (None, None, "unknown"),
        ],
    )
    def test_only_identities_of_one_kind_compare(self, then, now, expected):
        assert compare(then, now) == expected

    def test_another_revision_of_the_same_kind_is_stale(self):
        story = reviewed()
        story.revise("c2", verifier_revision=OTHER_VERIFIER)
        assert story.shown()["applicability"] == "stale"

    def test_a_revision_of_another_kind_is_unknown_and_not_stale(self):
        story = reviewed()
        story.revise("c2", verifier_revision=DIGEST)
        shown = story.shown()
        assert (shown["quality"], shown["applicability"]) == ("good", "unknown")
        assert "a commit cannot be compared with a digest" in story.text_of("applicability.revision-unknown")
        assert shown["difficulty"]["status"] == "historical"

    def test_one_revision_that_differs_is_stale_whatever_the_other_is(self):
        story = reviewed()
        story.revise("c2", verifier_revision=DIGEST, dataset_revision=OTHER_DATA)
        assert story.shown()["applicability"] == "stale"


class TestRow27ADatasetAttestationIsHonouredForTheBytesAlone:
    def moved(self, attestation: Any, **row: Any) -> Told:
        """The data is at another revision, and an attestation speaks of it."""
        story = reviewed()
        story.revise("c2", dataset_revision=OTHER_DATA, **row)
        story.add(attestation)
        return story

    def test_equal_files_make_the_review_current_and_the_report_too(self):
        story = self.moved(same_data())
        shown = story.shown()
        assert (shown["quality"], shown["applicability"]) == ("good", "current")
        assert shown["difficulty"]["status"] == "current"
        assert finding_of(story) == ("unchanged", True)
        assert story.cited_by("applicability.attestation-honoured") == ["attestation.recorded"]
        assert story.has("difficulty.attested")

    def test_without_one_the_review_is_stale(self):
        story = reviewed()
        story.revise("c2", dataset_revision=OTHER_DATA)
        assert story.shown()["applicability"] == "stale"

    def test_files_that_differ_are_not_honoured_and_that_is_said(self):
        story = self.moved(same_data(equal=False))
        assert story.shown()["applicability"] == "stale"
        assert finding_of(story) == ("changed", False)
        assert story.has("applicability.attestation-not-honoured")

    @pytest.mark.parametrize(
        "revisions", [{"executed_revision": "7" * 40}, {"current_revision": "7" * 40}], ids=["executed", "current"]
    )
    def test_revisions_that_are_not_those_compared_say_nothing(self, revisions):
        story = self.moved(same_data(**revisions))
        assert story.shown()["applicability"] == "stale"
        assert finding_of(story) == ("unchanged", False)

    def test_it_never_makes_the_verifier_current(self):
        story = self.moved(same_data(), verifier_revision=OTHER_VERIFIER)
        assert story.shown()["applicability"] == "stale"

    def test_it_bridges_a_revision_of_another_kind(self):
        story = reviewed()
        story.revise("c2", dataset_revision="v2.0")
        assert story.shown()["applicability"] == "unknown"
        story.add(same_data(current_revision="v2.0"))
        assert story.shown()["applicability"] == "current"

    @pytest.mark.parametrize(
        ("claim", "found"),
        [
            (selection(), "unchanged"),
            (None, "incomplete"),
            (selection(hashes=(None, None)), "incomplete"),
            (selection(hashes=("r", None)), "incomplete"),
            (selection(hashes=("r", "s")), "changed"),
            (selection(rows=(7, 8)), "changed"),
            (selection(selector="split == 'test'"), "incomplete"),
        ],
    )
    def test_a_component_needs_its_selection_shown_row_by_row(self, claim, found):
        story = self.moved(same_data(selection=claim), component_selector=SELECTOR)
        assert finding_of(story) == (found, found == "unchanged")
        assert story.shown()["applicability"] == ("current" if found == "unchanged" else "stale")

    def test_another_selection_of_equal_files_is_a_change(self):
        other = selection().model_copy(update={"executed_selector": "split == 'test'"})
        story = self.moved(same_data(selection=other), component_selector=SELECTOR)
        assert finding_of(story) == ("changed", False)


class TestANativeRevisionAttestation:
    def moved(self, attestation: Any, **row: Any) -> Told:
        story = Told().listed()
        story.review("r1", executed_commit=EXECUTED)
        story.revise("c2", **{"verifier_revision": OTHER_VERIFIER, **row})
        story.add(attestation)
        return story

    def test_equal_objects_make_the_verifier_current(self):
        story = self.moved(same_code())
        assert story.shown()["applicability"] == "current"
        assert finding_of(story) == ("unchanged", True)

    def test_it_may_start_from_the_verifiers_own_revision(self):
        story = self.moved(same_code(reviewed_commit=VERIFIER))
        assert story.shown()["applicability"] == "current"

    def test_it_may_end_at_the_registrys_revision_where_the_verifier_is_a_commit(self):
        story = self.moved(same_code(registry_commit=REGISTRY), revision=REGISTRY)
        assert story.shown()["applicability"] == "current"

    def test_but_not_where_the_verifier_is_a_digest(self):
        story = self.moved(same_code(registry_commit=REGISTRY), revision=REGISTRY, verifier_revision=DIGEST)
        assert story.shown()["applicability"] == "unknown"

    def test_an_executed_commit_speaks_for_a_review_that_does_not_name_its_verifier(self):
        story = Told().listed()
        story.review("r1", executed_commit=EXECUTED, verifier_revision=None, verifier_revision_basis=None)
        assert story.shown()["applicability"] == "unknown"
        story.add(same_code(registry_commit=VERIFIER))
        assert story.shown()["applicability"] == "current"

    @pytest.mark.parametrize(
        ("attestation", "found"),
        [
            (same_code(dirty=True), "incomplete"),
            (same_code(pairs=(("c" * 40, "d" * 40),)), "changed"),
            (same_code(pairs=(("c" * 40, "c" * 40), ("c" * 40, None))), "changed"),
            (same_code(pairs=(("c" * 40, "c" * 40), (None, None))), "incomplete"),
            (same_code(reviewed_commit="9" * 40), "unchanged"),
            (same_code(registry_commit="9" * 40), "unchanged"),
        ],
        ids=["dirty", "changed", "gone", "on neither side", "another start", "another end"],
    )
    def test_anything_less_is_not_honoured(self, attestation, found):
        story = self.moved(attestation)
        assert story.shown()["applicability"] == "stale"
        assert finding_of(story) == (found, False)

    def test_it_says_nothing_of_the_data(self):
        story = self.moved(same_code(), dataset_revision=OTHER_DATA)
        assert story.shown()["applicability"] == "stale"

    def test_both_attestations_together_carry_the_review_to_a_later_revision(self):
        story = self.moved(same_code(), dataset_revision=OTHER_DATA)
        story.add(same_data())
        shown = story.shown()
        assert (shown["quality"], shown["applicability"]) == ("good", "current")
        assert [a["honoured"] for a in shown["attestations"]] == [True, True]


class TestRow30AGradingAttestationIsComparedAndCanBeWithdrawn:
    def moved(self, *attestations: Any) -> Told:
        story = Told().listed()
        story.review("r1")
        story.revise("c2", verifier_revision=DIGEST)
        for attestation in attestations:
            story.add(attestation)
        return story

    def test_equal_programs_make_the_verifier_current(self):
        story = self.moved(same_grading("r1"))
        assert story.shown()["applicability"] == "current"
        assert finding_of(story) == ("unchanged", True)

    @pytest.mark.parametrize(
        ("fields", "found"),
        [
            ({"pairs": (("p", "q"),)}, "changed"),
            ({"pairs": (("p", "p"), (None, "q"))}, "incomplete"),
            ({"pairs": (("p", "p"), ("q", None))}, "incomplete"),
            ({"manifest_sha256": sha("another manifest")}, "incomplete"),
            ({"grading_revision": "6" * 64, "manifest_sha256": "6" * 64}, "unchanged"),
            ({"captured_verifier_revision": OTHER_VERIFIER}, "unchanged"),
            ({"source_revision": OTHER_DATA}, "unchanged"),
            ({"review": sha("r2")}, "unchanged"),
        ],
        ids=["changed", "not run", "not in the manifest", "manifest", "grading", "verifier", "data", "review"],
    )
    def test_anything_less_is_not_honoured(self, fields, found):
        story = self.moved(same_grading("r1", **fields))
        assert story.shown()["applicability"] == "unknown"
        assert finding_of(story) == (found, False)

    def test_what_the_check_could_not_see_is_said(self):
        story = self.moved(same_grading("r1"))
        assert "could not see" not in story.text_of("applicability.attestation-honoured")
        claim = same_grading("r1")
        limited = claim.grading_applicability.model_copy(update={"unchecked": ["third-party packages"]})
        story = self.moved(claim.model_copy(update={"grading_applicability": limited}))
        assert "could not see third-party packages" in story.text_of("applicability.attestation-honoured")

    def test_a_later_one_of_the_same_subject_supersedes_whatever_it_found(self):
        story = self.moved(same_grading("r1"), same_grading("r1", pairs=(("p", "q"),)))
        assert story.shown()["applicability"] == "unknown"
        assert [a["finding"] for a in story.shown()["attestations"]] == ["changed"]

    def test_a_wrong_one_can_be_superseded_by_a_right_one(self):
        story = self.moved(same_grading("r1", pairs=(("p", "q"),)), same_grading("r1"))
        assert story.shown()["applicability"] == "current"

    def test_a_later_one_of_the_same_revisions_withdraws_under_any_subject(self):
        story = self.moved(same_grading("r1"), same_grading("r1", "another subject", pairs=(("p", "q"),)))
        assert story.shown()["applicability"] == "unknown"
        assert [a["honoured"] for a in story.shown()["attestations"]] == [False, False]

    def test_a_source_that_had_one_is_bound_to_nothing(self):
        story = self.moved(same_grading("r1"))
        story.revise("c3", verifier_revision=VERIFIER)
        assert story.shown()["applicability"] == "current"
        assert finding_of(story) == ("unchanged", False)


class TestAnExecutionAttestation:
    @pytest.mark.parametrize(
        ("fields", "found"),
        [
            ({}, "unchanged"),
            ({"equal": False}, "changed"),
            ({"equal": False, "validated": True}, "changed_validated"),
            ({"validated": True}, "unchanged"),
        ],
    )
    def test_its_finding_is_that_of_the_parsed_definitions(self, fields, found):
        story = reviewed()
        story.add(same_execution(**fields))
        assert finding_of(story) == (found, False)

    @pytest.mark.parametrize("fields", [{}, {"equal": False, "validated": True}])
    def test_a_report_may_rest_on_one_that_supports(self, fields):
        story = Told().listed()
        story.review("r1")
        story.report(rests_on=[story.add(same_execution(**fields))])
        assert story.shown()["difficulty"]["status"] == "current"
        assert finding_of(story)[1]

    def test_a_report_that_rests_on_a_change_is_historical(self):
        story = Told().listed()
        story.review("r1")
        story.report(rests_on=[story.add(same_execution(equal=False))])
        assert story.shown()["difficulty"]["status"] == "historical"
        assert story.cited_by("difficulty.rests-on-unsupported") == ["attestation.recorded", "difficulty.reported"]

    def test_a_report_that_rests_on_nothing_recorded_is_historical(self):
        story = Told().listed()
        story.review("r1")
        story.report(rests_on=["e999"])
        assert story.shown()["difficulty"]["status"] == "historical"

    def test_a_later_contradiction_withdraws_the_support(self):
        story = Told().listed()
        story.review("r1")
        story.report(rests_on=[story.add(same_execution())])
        story.add(same_execution(equal=False))
        assert story.shown()["difficulty"]["status"] == "historical"
        story.add(same_execution(equal=False, validated=True))
        assert story.shown()["difficulty"]["status"] == "current"

    def test_a_review_whose_support_is_withdrawn_is_no_longer_known_to_apply(self):
        story = Told().listed()
        story.review("r1", rests_on=[story.add(same_execution())])
        assert story.shown()["applicability"] == "current"
        assert finding_of(story) == ("unchanged", True)
        story.add(same_execution(equal=False))
        assert (story.shown()["quality"], story.shown()["applicability"]) == ("good", "unknown")
        assert [r["applicability"] for r in story.shown()["review_pool"]] == ["unknown"]
        assert story.has("applicability.rests-on-unsupported")


class TestRow8AResolutionIsJudgedAgainAtEveryRevision:
    def resolved(self, *, confirmed_by: str | None = None, resolved_by: str | None = None) -> Told:
        story = Told().listed()
        story.review("r1")
        story.add(confirmed(), principal=confirmed_by)
        story.resolve(principal=resolved_by)
        return story

    def defect(self, story: Told) -> dict[str, Any]:
        (defect,) = story.shown()["resolved_defects"]
        return defect

    def test_it_holds_for_the_revisions_that_were_validated(self):
        story = self.resolved()
        assert self.defect(story)["applicability"] == "current"
        assert story.cited_by("quality.resolution-current") == ["defect.confirmed", "defect.resolved"]

    @pytest.mark.parametrize("changed", [{"dataset_revision": OTHER_DATA}, {"verifier_revision": OTHER_VERIFIER}])
    def test_later_revisions_make_it_stale_and_do_not_reopen_the_defect(self, changed):
        story = self.resolved()
        story.revise("c2", **changed)
        assert self.defect(story)["applicability"] == "stale"
        assert story.shown()["open_defects"] == []
        assert "stays resolved" in story.text_of("quality.resolution-stale")

    def test_an_attestation_is_honoured_for_it(self):
        story = self.resolved()
        story.revise("c2", dataset_revision=OTHER_DATA)
        story.add(same_data())
        assert self.defect(story)["applicability"] == "current"
        assert "attestation.recorded" in story.cited_by("quality.resolution-current")

    def test_an_identity_of_another_kind_makes_it_unknown(self):
        story = self.resolved()
        story.revise("c2", verifier_revision=DIGEST)
        assert self.defect(story)["applicability"] == "unknown"

    def test_a_resolution_without_its_validation_is_unknown(self):
        story = Told().listed()
        story.add(confirmed())
        story.add(builders.resolved("e999", "fix"))
        assert self.defect(story)["applicability"] == "unknown"

    def test_open_defects_have_no_resolution_to_judge(self):
        story = Told().listed()
        story.add(confirmed())
        (defect,) = story.shown()["open_defects"]
        assert (defect["applicability"], defect["independence"]) == (None, None)

    @pytest.mark.parametrize(
        ("confirmed_by", "resolved_by", "expected"),
        [
            ("mara", "jo", "established"),
            ("mara", "mara", "not_established"),
            (None, "jo", "not_established"),
            ("mara", None, "not_established"),
            (None, None, "not_established"),
        ],
    )
    def test_independence_needs_two_known_principals(self, confirmed_by, resolved_by, expected):
        story = self.resolved(confirmed_by=confirmed_by, resolved_by=resolved_by)
        assert self.defect(story)["independence"] == expected
        said = story.text_of("quality.resolution-current")
        assert ("independence not established" in said) == (expected == "not_established")

    def test_a_reopened_defect_is_resolved_anew(self):
        story = self.resolved()
        story.add(builders.reopened())
        story.add(builders.resolved(story.add(validation(**ON_PRESENT)), "fix"))
        assert self.defect(story)["applicability"] == "current"
