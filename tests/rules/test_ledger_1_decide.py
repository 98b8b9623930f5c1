"""Decisions under the corrected rules: what every set refuses, and what only this one does."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from ledger.core.errors import Problem
from ledger.events.policy import ProtocolJudge
from ledger.rules.ledger_1 import RULES, V2

from .builders import (
    SOURCE,
    Story,
    adopted,
    confirmed,
    defined,
    fixed,
    published,
    resolved,
    validation,
)
from .ledger_1_builders import (
    DATA,
    DIGEST,
    ON_PRESENT,
    OTHER_DATA,
    VERIFIER,
    Told,
    fixed_here,
    good,
    same_data,
    same_execution,
)
from .test_decide import ACCEPTED, REFUSED

OTHERWISE = {
    "a resolution with everything that it takes",
    "a resolution whose replay passed though it observed something else",
    "a resolution whose review ran at an older revision too",
    "adopting without knowing what it replaces",
}
"""Judged otherwise here: a resolution needs content identities, and several protocols may be adopted."""


def against(story: Story, decision: BaseModel) -> list[tuple[str, str]]:
    return [(p.place, p.message) for p in story.against(decision)]


def says(problems: tuple[Problem, ...] | list[Any], place: str, words: str) -> bool:
    return any(at == place and words in message for at, message in problems)


@pytest.mark.parametrize("sentence", sorted(REFUSED.keys() - OTHERWISE))
def test_refused_as_by_the_page(sentence: str) -> None:
    make, place, words = REFUSED[sentence]
    story = Story(RULES).listed()
    decision = make(story)
    stream = "origin/MarinSkyRL" if sentence == "an origin that is not the stream's" else ""
    problems = story.against(decision, stream=stream)
    assert any(p.place == place and words in p.message for p in problems), problems


@pytest.mark.parametrize("sentence", sorted(ACCEPTED.keys() - OTHERWISE))
def test_accepted_as_by_the_page(sentence: str) -> None:
    story = Story(RULES).listed()
    assert story.against(ACCEPTED[sentence](story)) == ()


def test_a_source_in_no_catalogue_has_nothing_published_or_confirmed() -> None:
    story = Story(RULES)
    assert [place for place, _ in against(story, confirmed())] == ["/source_id"]
    publication = published("r1", "r1", [story.add(part) for part in good("r1")])
    assert says(against(story, publication), "/source_id", "import the inventory")


class TestRow6And7AResolutionNeedsTheIdentityOfWhatWasRepaired:
    def resolution(self, verifier: str | None = VERIFIER, *, checked: Any = None, claim: Any = None, **review: Any):
        """A resolution that would be accepted, but for what is changed."""
        story = Told().listed(verifier_revision=verifier)
        present = {"dataset_revision": DATA, "verifier_revision": verifier}
        story.add(confirmed())
        validated = story.add(validation(**{**present, **(checked or {})}))

        def parts(collection: str) -> list[BaseModel]:
            return [*good(collection), fixed(collection, **{**present, **(claim or {})})[-1]]

        story.review("fix", parts, **{"verifier_revision": verifier, **review})
        return against(story, resolved(validated, "fix"))

    @pytest.mark.parametrize("verifier", [VERIFIER, DIGEST])
    def test_a_commit_or_a_digest_is_one(self, verifier):
        assert self.resolution(verifier) == []

    def test_a_version_is_not(self):
        problems = self.resolution("v3.9")
        assert says(problems, "/validation", "names the verifier by the version v3.9")
        assert says(problems, "/review", "names the verifier by the version v3.9")

    @pytest.mark.parametrize("basis", ["catalogue", "publisher", None])
    def test_a_verifier_that_the_execution_did_not_show_is_not(self, basis):
        problems = self.resolution(verifier_revision_basis=basis)
        assert [place for place, _ in problems] == ["/review"]
        assert says(problems, "/review", "not of the execution")

    def test_a_review_that_names_none_is_refused(self):
        problems = self.resolution(verifier_revision=None, verifier_revision_basis=None)
        assert says(problems, "/review", "does not say which verifier revision it covers")

    def test_unknown_is_not_equal_to_unknown(self):
        nothing = {"verifier_revision": None}
        problems = self.resolution(None, verifier_revision_basis=None)
        assert says(problems, "/defect", "verifier revision is unknown")
        assert says(problems, "/validation", "does not say which verifier revision")
        assert says(problems, "/review", "does not say which verifier revision")
        assert says(self.resolution(checked=nothing), "/validation", "does not say which verifier revision")
        assert says(self.resolution(claim=nothing), "/review", "resolved_verifier_issues")

    def test_a_bare_claim_is_not_enough(self):
        problems = self.resolution(checked={"replays": [], "controls": [], "evidence": []})
        assert [place for place, _ in problems] == ["/validation"] * 4

    def test_a_catalogue_basis_on_other_data_is_told_both(self):
        problems = self.resolution(verifier_revision_basis="catalogue", dataset_revision=None)
        assert says(problems, "/review", "does not say which dataset revision")
        assert says(problems, "/review", "not of the execution")


class TestAPublicationRestsOnlyOnWhatSupportsIt:
    def publication(self, *attestations: BaseModel, name: str = "") -> list[tuple[str, str]]:
        story = Told().listed()
        recorded = [story.add(a) for a in attestations]
        ids = [story.add(part) for part in good("r1")]
        rests_on = [name] if name else recorded[:1]
        return against(story, published("r1", "r1", ids, rests_on=rests_on, **ON_PRESENT))

    def test_unchanged_execution_supports_it(self):
        assert self.publication(same_execution()) == []

    def test_a_differing_comparison_does_not(self):
        problems = self.publication(same_execution(equal=False))
        assert says(problems, "/rests_on/0", "supports nothing until the change is validated")

    def test_once_the_change_is_validated_it_does(self):
        assert self.publication(same_execution(equal=False, validated=True)) == []

    def test_an_attestation_that_is_not_recorded_does_not(self):
        assert says(self.publication(name="e999"), "/rests_on/0", "no recorded attestation of this source")

    def test_one_that_was_superseded_by_a_difference_does_not(self):
        problems = self.publication(same_execution(), same_execution(equal=False))
        assert says(problems, "/rests_on/0", "which superseded e4")

    def test_one_that_is_incomplete_does_not(self):
        claim = same_data()
        absent = claim.model_copy(update={"dataset_revision": claim.dataset_revision.model_copy(update={"files": []})})
        assert says(self.publication(absent), "/rests_on/0", "incomplete")


class TestAReviewOfEarlierDataIsPublishedWhereAnAttestationBridgesIt:
    def problems(self, *, attested: bool) -> list[tuple[str, str]]:
        story = Told().listed(dataset_revision=OTHER_DATA)
        if attested:
            story.add(same_data())
        ids = [story.add(part) for part in good("r1")]
        return against(story, published("r1", "r1", ids, **ON_PRESENT))

    def test_with_one(self):
        assert self.problems(attested=True) == []

    def test_and_not_without(self):
        assert says(self.problems(attested=False), "/dataset_revision", "review that")


class TestRow4AdoptingAProtocol:
    JUDGE = ProtocolJudge(key="judge", required={}, not_empty=[])

    def adoption(self, *, replaces: str | None, **terms: Any) -> list[tuple[str, str]]:
        story = Told().listed()
        return against(story, adopted(story.add(defined("v3", **terms)), "v3", replaces))

    def test_a_general_one_replaces_an_adopted_one(self):
        assert self.adoption(replaces=V2.protocol) == []

    def test_a_general_one_does_not_stand_beside_another(self):
        problems = self.adoption(replaces=None)
        assert says(problems, "/replaces", f"it must replace an adopted protocol; adopted: {V2.protocol}")

    @pytest.mark.parametrize("terms", [{"sources": [SOURCE]}, {"judge": JUDGE}], ids=["sources", "judge"])
    @pytest.mark.parametrize("replaces", [None, V2.protocol])
    def test_a_branch_may_do_either(self, terms, replaces):
        assert self.adoption(replaces=replaces, **terms) == []

    def test_the_place_of_what_is_not_adopted_cannot_be_taken(self):
        assert says(self.adoption(replaces="v1"), "/replaces", "'v1' is not adopted")

    def test_the_first_one_replaces_nothing(self):
        story = Told()
        definition = story.add(defined())
        assert against(story, adopted(definition)) == []
        assert says(against(story, adopted(definition, replaces="v1")), "/replaces", "adopted: none")

    def test_adopting_what_is_adopted_changes_nothing_and_is_refused(self):
        story = Told().listed()
        assert says(against(story, adopted("e2", replaces=V2.protocol)), "/protocol", "adopted already")

    @pytest.mark.parametrize(
        "terms", [{"sources": [SOURCE]}, {"judge": JUDGE}, {"note": "otherwise"}], ids=["sources", "judge", "note"]
    )
    def test_a_definition_never_changes(self, terms):
        story = Told().listed()
        assert says(against(story, defined(**terms)), "/protocol", "give it a new id")


def test_all_reasons_are_given_at_once() -> None:
    story = Told().listed()
    story.add(confirmed())
    validated = story.add(validation(replays=[], controls=[], evidence=[], dataset_revision=None))
    story.review("fix")
    places = [place for place, _ in against(story, resolved(validated, "fix"))]
    assert set(places) == {"/validation", "/review"}
    assert places.count("/validation") == 7


def test_the_resolution_that_a_story_tells_is_accepted() -> None:
    story = Told().listed()
    story.add(confirmed())
    validated = story.add(validation(**ON_PRESENT))
    story.review("fix", fixed_here)
    assert against(story, resolved(validated, "fix")) == []
