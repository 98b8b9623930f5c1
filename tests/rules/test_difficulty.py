"""Difficulty in the words of the Atlas page: current, historical, withheld, needs re-review, not measured."""

from __future__ import annotations

import pytest

from ledger.events.difficulty import DifficultyContextRecorded, DifficultyFollowupReported
from ledger.rules.atlas_page_1 import V2
from ledger.rules.atlas_page_1.wilson import wilson_95

from .builders import (
    SOURCE,
    Story,
    adopted,
    bad,
    confirmed,
    declared,
    defined,
    measured,
    report,
    some_issues,
    withdrawn,
)


def good_story() -> Story:
    """A source that is Good, under the adopted protocol v2."""
    story = Story().listed()
    story.review("r1")
    return story


class TestStatus:
    def test_not_measured_without_a_report(self):
        shown = good_story().shown()["difficulty"]
        assert shown == {"status": "not_measured", "models": [], "protocol": None, "estimated_at": None}

    def test_withheld_while_a_defect_is_open_with_or_without_a_report(self):
        story = good_story()
        story.add(confirmed())
        assert story.shown()["difficulty"] == {
            "status": "withheld", "models": [], "protocol": None, "estimated_at": None,
        }  # fmt: skip
        assert story.cited_by("difficulty.open-defect") == ["defect.confirmed"]

    def test_current_for_a_good_source_under_the_adopted_protocol(self):
        story = good_story()
        story.add(report())
        shown = story.shown()["difficulty"]
        assert (shown["status"], shown["protocol"]) == ("current", "atlas-difficulty-v2-65k16k")
        assert [m["size"] for m in shown["models"]] == ["small", "large", "hosted"]
        assert story.cited_by("difficulty.current") == ["protocol.defined", "protocol.adopted", "difficulty.reported"]

    def test_a_report_under_another_protocol_is_historical_with_its_own_models(self):
        story = good_story()
        story.add(report(measured("large", 3, 10, model="GLM AWQ"), protocol="earlier"))
        shown = story.shown()["difficulty"]
        assert (shown["status"], shown["models"][0]["model"]) == ("historical", "GLM AWQ")
        assert story.rules_of("difficulty") == ["difficulty.other-protocol"]

    def test_before_a_protocol_is_adopted_every_report_is_historical(self):
        story = Story()
        story.refresh(declared())
        story.review("r1")
        story.add(report())
        assert story.shown()["difficulty"]["status"] == "historical"
        assert story.rules_of("difficulty") == ["difficulty.no-protocol"]

    def test_adopting_another_protocol_makes_a_report_historical(self):
        story = good_story()
        story.add(report())
        story.add(adopted(story.add(defined("v3")), "v3", replaces=V2.protocol))
        assert story.shown()["difficulty"]["status"] == "historical"

    def test_an_open_confirmed_defect_withholds_it(self):
        story = good_story()
        story.add(report())
        story.add(confirmed())
        shown = story.shown()["difficulty"]
        assert (shown["status"], shown["models"]) == ("withheld", [])
        assert story.cited_by("difficulty.open-defect") == ["difficulty.reported", "defect.confirmed"]

    @pytest.mark.parametrize("changed", [{"dataset_revision": "data-2"}, {"verifier_revision": "verifier-2"}])
    def test_a_changed_revision_hides_it(self, changed):
        story = good_story()
        story.add(report())
        story.revise("c2", **changed)
        shown = story.shown()["difficulty"]
        assert (shown["status"], shown["models"]) == ("needs_re_review", [])

    def test_a_stale_review_hides_a_report_that_says_nothing_of_its_revisions(self):
        story = good_story()
        story.add(report(source_revision=None, verifier_revision=None))
        story.revise("c2", dataset_revision="data-2")
        assert story.shown()["difficulty"]["status"] == "needs_re_review"
        assert story.rules_of("difficulty") == ["difficulty.review-stale"]

    @pytest.mark.parametrize("measured_on", [{"source_revision": "data-0"}, {"verifier_revision": "verifier-0"}])
    def test_a_report_on_other_revisions_than_the_sources_needs_re_review(self, measured_on):
        story = good_story()
        story.add(report(**measured_on))
        shown = story.shown()["difficulty"]
        assert (shown["status"], shown["models"]) == ("needs_re_review", [])
        assert story.rules_of("difficulty") == ["difficulty.revision-changed"]

    def test_an_unknown_revision_of_a_report_contradicts_nothing_and_is_said(self):
        story = good_story()
        story.add(report(source_revision=None, verifier_revision=None))
        assert story.shown()["difficulty"]["status"] == "current"
        assert "data and verifier revision is unknown" in story.text_of("difficulty.revision-unknown")

    @pytest.mark.parametrize("kind", [some_issues, bad])
    def test_only_a_good_source_has_a_current_difficulty(self, kind):
        story = Story().listed()
        story.review("r1", kind)
        story.add(report())
        shown = story.shown()["difficulty"]
        assert (shown["status"], len(shown["models"])) == ("historical", 3)
        assert story.rules_of("difficulty") == ["difficulty.not-good"]

    def test_a_report_from_before_the_last_confirmation_stays_historical_when_good_returns(self):
        story = good_story()
        story.add(report())
        story.add(confirmed())
        story.add(withdrawn())
        story.review("r2")
        assert story.shown()["quality"] == "good"
        assert story.shown()["difficulty"]["status"] == "historical"
        assert story.rules_of("difficulty") == ["difficulty.before-defect"]
        story.add(report())
        assert story.shown()["difficulty"]["status"] == "current"

    def test_the_newest_report_that_is_current_is_shown_before_a_newer_one_that_is_not(self):
        story = good_story()
        story.add(report())
        story.add(report(estimated_at="2026-11-01T00:00:00Z"))
        story.add(report(protocol="earlier"))
        shown = story.shown()["difficulty"]
        assert (shown["status"], shown["estimated_at"]) == ("current", "2026-11-01T00:00:00Z")

    def test_without_a_current_report_the_newest_is_shown(self):
        story = good_story()
        story.add(report(protocol="earlier"))
        story.add(report(protocol="later"))
        assert story.shown()["difficulty"]["protocol"] == "later"

    def test_follow_ups_and_contexts_change_nothing_that_is_shown(self):
        story = good_story()
        before = story.shown()
        outcome = measured("hosted", 7, 32)
        story.add(
            DifficultyFollowupReported(
                atlas_id=SOURCE,
                followup_id="f1",
                state="complete",
                kind="generation_setting",
                original_report=None,
                report=None,
                changed_parameter="max_tokens",
                checkpoint_change=None,
                outcome=outcome,
            )
        )
        story.add(
            DifficultyContextRecorded(
                atlas_id=SOURCE, context=None, reviewer_rollout_baseline={}, historical_reference={}
            )
        )
        assert story.shown() == before


WRONG = {
    "a smaller context window": ({"limits": {"context_window": 8192}}, "context_window is 8192"),
    "a smaller input limit": ({"limits": {"max_input_tokens": 1}}, "max_input_tokens is 1"),
    "a smaller output limit": ({"limits": {"max_output_tokens": 8192}}, "max_output_tokens is 8192"),
    "an unknown limit": ({"limits": {"max_output_tokens": None}}, "max_output_tokens is not recorded"),
}
WRONG_MODEL = {
    "another model": ({"model": "Qwen/Qwen3.5-9B"}, 'large model is "Qwen/Qwen3.5-9B"'),
    "thinking disabled": (
        {"chat_template_kwargs": {"enable_thinking": False}},
        'large chat_template_kwargs is {"enable_thinking": false}',
    ),
    "a number where a truth value belongs": (
        {"chat_template_kwargs": {"enable_thinking": 1}},
        'large chat_template_kwargs is {"enable_thinking": 1}',
    ),
    "another top_p": ({"top_p": 0.8}, "large top_p is 0.8"),
    "a parameter that is not recorded": ({"top_k": None}, "large top_k is not recorded"),
    "a truth value where a number belongs": ({"repetition_penalty": True}, "large repetition_penalty is true"),
    "a parameter that the protocol does not set": ({"seed": 1}, "large seed is 1, which the protocol does not set"),
    "more solved than verified": ({"solved": 33}, "large solved 33 of 32 verified"),
}


def wrong_large(changes: dict) -> list:
    large = measured("large", changes.get("solved", 17), 32, **{k: v for k, v in changes.items() if k == "model"})
    parameters = {k: v for k, v in changes.items() if k not in {"model", "solved"}}
    large = large.model_copy(update={"generation_parameters": {**large.generation_parameters, **parameters}})
    return [measured("small", 11, 32), large, measured("hosted", 21, 32)]


class TestAReportThatBreaksItsProtocolIsHistorical:
    @pytest.mark.parametrize("wrong", WRONG)
    def test_by_its_limits(self, wrong):
        fields, said = WRONG[wrong]
        story = good_story()
        story.add(report(**fields))
        assert story.shown()["difficulty"]["status"] == "historical"
        assert said in story.text_of("difficulty.protocol-mismatch")

    @pytest.mark.parametrize("wrong", WRONG_MODEL)
    def test_by_a_model(self, wrong):
        changes, said = WRONG_MODEL[wrong]
        story = good_story()
        story.add(report(*wrong_large(changes)))
        assert story.shown()["difficulty"]["status"] == "historical"
        assert said in story.text_of("difficulty.protocol-mismatch")

    def test_by_the_set_of_models_and_every_mismatch_is_named(self):
        story = good_story()
        small = measured("small", 1, 2)
        story.add(report(small, small, small.model_copy(update={"size": "medium"})))
        text = story.text_of("difficulty.protocol-mismatch")
        for said in (
            "the model large is missing",
            "the model hosted is missing",
            "the model small is there more than once",
            "the protocol has no model medium",
        ):
            assert said in text

    def test_native_reasoning_controls_are_compared_only_where_they_are_recorded(self):
        sampling = {k: v for k, v in V2.models[0].generation_parameters.items() if k != "max_tokens"}
        models = [measured(m.size, 1, 2, generation_parameters=sampling) for m in V2.models]
        story = good_story()
        story.add(report(*models))
        assert story.shown()["difficulty"]["status"] == "current"

    def test_a_long_value_does_not_drown_the_sentence(self):
        story = good_story()
        story.add(report(*wrong_large({"seed": "x" * 5000})))
        text = story.text_of("difficulty.protocol-mismatch")
        assert "x…, which the protocol does not set" in text
        assert len(text) < 200

    def test_lists_are_compared_item_by_item(self):
        asked = V2.models[0].model_copy(update={"generation_parameters": {"stop": ["a", 1]}})
        for stop, status in ((["a", 1.0], "current"), (["a", True], "historical"), (["a"], "historical")):
            story = good_story()
            story.add(adopted(story.add(defined("lists", models=[asked])), "lists", replaces=V2.protocol))
            story.add(report(measured("small", 1, 2, generation_parameters={"stop": stop}), protocol="lists"))
            assert story.shown()["difficulty"]["status"] == status

    def test_zero_and_nought_point_nought_are_one_number(self):
        small = measured("small", 1, 2)
        same = {**small.generation_parameters, "min_p": 0.0, "repetition_penalty": 1.0}
        story = good_story()
        story.add(report(measured("small", 1, 2, generation_parameters=same), *wrong_large({})[1:]))
        assert story.shown()["difficulty"]["status"] == "current"


class TestCounts:
    def test_counts_are_those_that_were_saved(self):
        story = good_story()
        small = measured("small", 11, 32, unverified=5, attempted=40, solve_rate=0.99, wilson_95=[0.0, 1.0])
        story.add(report(small, *wrong_large({})[1:]))
        model = story.shown()["difficulty"]["models"][0]
        assert (model["solved"], model["verified"], model["unverified"], model["attempted"]) == (11, 32, 5, 40)
        assert model["solve_rate"] == 11 / 32
        assert (model["wilson_low"], model["wilson_high"]) == wilson_95(11, 32)

    def test_with_nothing_verified_there_is_no_rate_and_no_interval(self):
        story = good_story()
        story.add(report(measured("small", 0, 0), *wrong_large({})[1:]))
        model = story.shown()["difficulty"]["models"][0]
        assert (model["solve_rate"], model["wilson_low"], model["wilson_high"]) == (None, None, None)

    @pytest.mark.parametrize(
        ("solved", "verified", "low", "high"),
        [
            (11, 32, 0.2041, 0.5169),
            (17, 32, 0.3645, 0.6913),
            (21, 32, 0.4831, 0.7959),
            (0, 32, 0.0, 0.1072),
            (32, 32, 0.8928, 1.0),
            (7, 32, 0.1102, 0.3876),
            (2, 3, 0.2077, 0.9385),
        ],
    )
    def test_the_wilson_interval_has_its_golden_values(self, solved, verified, low, high):
        interval = wilson_95(solved, verified)
        assert interval is not None
        assert interval == pytest.approx((low, high), abs=6e-5)

    def test_the_interval_touches_its_ends_exactly(self):
        none, every = wilson_95(0, 7), wilson_95(7, 7)
        assert (none and none[0], every and every[1]) == (0.0, 1.0)

    @pytest.mark.parametrize(("solved", "verified"), [(0, 0), (3, 2)])
    def test_there_is_no_interval_for_counts_that_say_nothing(self, solved, verified):
        assert wilson_95(solved, verified) is None
