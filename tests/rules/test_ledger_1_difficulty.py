"""Difficulty under the corrected rules: adopted protocols, what a report is measured on, history and context."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.events.policy import ProtocolJudge
from ledger.rules.ledger_1 import V2

from .builders import SOURCE, adopted, bad, confirmed, declared, defined, measured, withdrawn
from .ledger_1_builders import ON_PRESENT, OTHER_DATA, OTHER_VERIFIER, Told, context, followup, judged_on, report

V3, BRANCH = "atlas-difficulty-v3", "atlas-difficulty-v4-judge"
JUDGE = ProtocolJudge(
    key="judge", required={"model": "example/judge", "kwargs": {"thinking": False}}, not_empty=["relay"]
)
CONFIGURED = {"model": "example/judge", "kwargs": {"thinking": False}, "relay": "sha"}


def rated() -> Told:
    """A source that is Good, under the adopted protocol v2."""
    story = Told().listed()
    story.review("r1")
    return story


def adopt(story: Told, protocol: str, *, replaces: str | None = None, **terms: Any) -> None:
    adoption = adopted(story.add(defined(protocol, **terms)), protocol, replaces)
    assert story.against(adoption) == ()
    story.add(adoption)


def status(story: Told) -> str:
    return str(story.shown()["difficulty"]["status"])


class TestRow4AReportIsCurrentAsOfThePolicyEvents:
    def test_under_the_adopted_protocol_it_is_current(self):
        story = rated()
        story.report()
        assert status(story) == "current"
        assert story.cited_by("difficulty.current") == ["protocol.defined", "protocol.adopted", "difficulty.reported"]

    def test_a_replaced_protocol_makes_it_historical_and_says_what_replaced_it(self):
        story = rated()
        story.report()
        adopt(story, V3, replaces=V2.protocol)
        assert status(story) == "historical"
        assert f"which {V3} replaced" in story.text_of("difficulty.other-protocol")
        assert "protocol.adopted" in story.cited_by("difficulty.other-protocol")

    def test_a_branch_stands_beside_the_general_protocol_and_both_are_current(self):
        story = rated()
        adopt(story, BRANCH, sources=[SOURCE])
        story.report()
        assert status(story) == "current"
        story.report(protocol=BRANCH)
        assert status(story) == "current"
        assert story.shown()["difficulty"]["protocol"] == BRANCH

    def test_a_protocol_that_is_defined_and_not_adopted_is_historical(self):
        story = rated()
        story.add(defined(V3))
        story.report(protocol=V3)
        assert status(story) == "historical"

    def test_a_protocol_that_nobody_knows_is_historical(self):
        story = rated()
        story.report(protocol="unnamed")
        assert status(story) == "historical"

    def test_a_protocol_adopted_again_is_current_again(self):
        story = rated()
        story.report()
        adopt(story, V3, replaces=V2.protocol)
        story.add(adopted("e2", V2.protocol, replaces=V3))
        assert status(story) == "current"

    def test_a_definition_is_never_replaced(self):
        story = rated()
        story.report()
        story.add(defined(V2.protocol, context_window=1))
        assert status(story) == "current"

    def test_before_any_adoption_it_is_historical(self):
        story = Told()
        story.refresh(declared(**ON_PRESENT))
        story.review("r1")
        story.report()
        assert status(story) == "historical"
        assert story.has("difficulty.no-protocol")

    def test_an_adoption_without_a_definition_is_historical(self):
        story = rated()
        story.add(adopted("e999", V3, replaces=V2.protocol))
        story.report(protocol=V3)
        assert story.has("difficulty.protocol-undefined")
        story.add(defined(V3))
        assert status(story) == "current"


class TestAReportThatBreaksItsAdoptedProtocolIsInvalid:
    def test_each_mismatch_is_named(self):
        story = rated()
        story.report(limits={"context_window": 32_768, "max_input_tokens": None})
        shown = story.shown()["difficulty"]
        assert shown["status"] == "invalid"
        assert len(shown["mismatches"]) == 2
        assert all(mismatch in story.text_of("difficulty.protocol-mismatch") for mismatch in shown["mismatches"])
        assert shown["models"] != []

    def test_a_current_report_has_no_mismatches(self):
        story = rated()
        story.report()
        assert story.shown()["difficulty"]["mismatches"] == []

    def test_of_a_protocol_that_is_no_longer_adopted_it_is_historical_all_the_same(self):
        story = rated()
        story.report(limits={"context_window": 1})
        adopt(story, V3, replaces=V2.protocol)
        assert (status(story), story.shown()["difficulty"]["mismatches"]) == ("historical", [])

    @pytest.mark.parametrize("sources", [["MarinSkyRL:gsm8k"], [SOURCE]])
    def test_a_protocol_counts_only_for_its_sources(self, sources):
        story = rated()
        adopt(story, BRANCH, sources=sources)
        story.report(protocol=BRANCH)
        assert status(story) == ("current" if SOURCE in sources else "invalid")

    @pytest.mark.parametrize(
        ("configured", "wrong"),
        [
            (CONFIGURED, []),
            ({**CONFIGURED, "more": 1}, []),
            ({**CONFIGURED, "model": "example/other"}, ["judge model"]),
            ({**CONFIGURED, "kwargs": {"thinking": True}}, ["judge kwargs"]),
            ({**CONFIGURED, "relay": ""}, ["judge relay"]),
            ({"relay": "sha"}, ["judge kwargs", "judge model"]),
            ("none", ["no judge"]),
            (None, ["no judge"]),
        ],
    )
    def test_the_judge_is_configured_as_the_protocol_says(self, configured, wrong):
        story = rated()
        adopt(story, BRANCH, judge=JUDGE)
        story.report(protocol=BRANCH, verifier_configuration={"judge": configured} if configured else {})
        shown = story.shown()["difficulty"]
        assert shown["status"] == ("invalid" if wrong else "current")
        assert len(shown["mismatches"]) == len(wrong)
        assert all(part in mismatch for part, mismatch in zip(wrong, shown["mismatches"], strict=True))

    @pytest.mark.parametrize("recorded", [True, False])
    def test_what_must_be_recorded_is(self, recorded):
        story = rated()
        models = [
            m.model_copy(update={"must_record": ["reasoning_effort"]}) if m.size == "hosted" else m for m in V2.models
        ]
        adopt(story, V3, replaces=V2.protocol, models=models)
        hosted = dict(V2.models[2].generation_parameters)
        if not recorded:
            del hosted["reasoning_effort"]
        story.report(
            measured("small", 1, 32),
            measured("large", 1, 32),
            measured("hosted", 1, 32, generation_parameters=hosted),
            protocol=V3,
        )
        assert status(story) == ("current" if recorded else "invalid")

    def test_a_native_control_that_need_not_be_recorded_may_be_left_out(self):
        story = rated()
        hosted = {k: v for k, v in V2.models[2].generation_parameters.items() if k != "reasoning_effort"}
        outcome = measured("hosted", 1, 32, generation_parameters=hosted)
        story.report(measured("small", 1, 32), measured("large", 1, 32), outcome)
        assert status(story) == "current"

    def test_what_must_be_recorded_without_a_value_of_its_own_is_looked_for_too(self):
        story = rated()
        models = [m.model_copy(update={"must_record": ["seed"]}) for m in V2.models]
        adopt(story, V3, replaces=V2.protocol, models=models)
        story.report(protocol=V3)
        mismatches = story.shown()["difficulty"]["mismatches"]
        assert [m.partition(" ")[0] for m in mismatches] == ["small", "large", "hosted"]
        seeded = [{**m.generation_parameters, "seed": 7} for m in V2.models]
        story.report(
            *(measured(m.size, 1, 32, generation_parameters=p) for m, p in zip(V2.models, seeded, strict=True)),
            protocol=V3,
        )
        assert status(story) == "current"


class TestRow20AReportBelongsToItsRevisionsAndNotToAReview:
    def test_a_new_review_does_not_drop_it(self):
        story = rated()
        story.report()
        story.review("r2", lambda c: judged_on(c, "2026-10-09T00:00:00Z"))
        assert status(story) == "current"

    @pytest.mark.parametrize("field", ["source_revision", "verifier_revision"])
    def test_measured_on_other_revisions_it_needs_re_review(self, field):
        story = rated()
        story.report(**{field: OTHER_DATA if field == "source_revision" else OTHER_VERIFIER})
        shown = story.shown()["difficulty"]
        assert (shown["status"], shown["models"]) == ("needs_re_review", [])

    def test_what_it_was_measured_on_is_shown(self):
        story = rated()
        position = story.events[int(story.report()[1:])].pos
        shown = story.shown()["difficulty"]
        assert (shown["source_revision"], shown["pos"]) == (report().source_revision, position)

    def test_an_unknown_revision_of_the_report_is_said(self):
        story = rated()
        story.report(verifier_revision=None)
        assert status(story) == "current"
        assert "present verifier revision is unknown" in story.text_of("difficulty.revision-unknown")

    def test_only_a_good_source_has_a_current_one(self):
        story = Told().listed()
        story.review("r1", bad)
        story.report()
        assert status(story) == "historical"
        assert story.has("difficulty.not-good")


class TestReportsFromBeforeADefectStayHistorical:
    def test_one_from_before_the_confirmation(self):
        story = rated()
        story.report()
        story.add(confirmed())
        story.add(withdrawn())
        story.review("r2")
        assert status(story) == "historical"
        assert "confirmed after" in story.text_of("difficulty.before-defect")

    def test_one_from_before_the_resolution(self):
        story = rated()
        story.add(confirmed())
        story.report()
        story.resolve()
        story.review("r2")
        assert status(story) == "historical"
        assert "resolved after" in story.text_of("difficulty.before-defect")

    def test_one_from_after_it_is_current(self):
        story = rated()
        story.add(confirmed())
        story.resolve()
        story.review("r2")
        story.report()
        assert status(story) == "current"

    def test_while_a_defect_is_open_it_is_withheld(self):
        story = rated()
        story.report()
        story.add(confirmed())
        shown = story.shown()["difficulty"]
        assert (shown["status"], shown["models"]) == ("withheld", [])


class TestRow36And37And41WhatIsSaidOfAMeasurement:
    def test_a_solve_rate_is_computed_once_from_the_saved_counts(self):
        story = rated()
        story.report(measured("small", 11, 32, solve_rate=0.99), measured("large", 17, 32), measured("hosted", 0, 0))
        small, _, hosted = story.shown()["difficulty"]["models"]
        assert small["solve_rate"] == 11 / 32
        assert (round(small["wilson_low"], 4), round(small["wilson_high"], 4)) == (0.2041, 0.5169)
        assert (hosted["solve_rate"], hosted["wilson_low"]) == (None, None)

    def test_the_ordering_warning_is_a_field_and_not_the_last_limitation(self):
        story = rated()
        story.report(ordering_warning="The order was not audited.", limitations=["One attempt a task."])
        assert story.shown()["difficulty"]["ordering_warning"] == "The order was not audited."
        story.report(limitations=["One attempt a task."])
        assert story.shown()["difficulty"]["ordering_warning"] is None

    @pytest.mark.parametrize(
        ("contracts", "said"),
        [(("a", "a", "a"), False), ((None, None, None), False), (("a", "b", "a"), True), (("a", "a", None), True)],
    )
    def test_rates_under_different_scoring_contracts_do_not_compare(self, contracts, said):
        story = rated()
        sizes = ("small", "large", "hosted")
        story.report(*(measured(s, 1, 32, scoring_contract=c) for s, c in zip(sizes, contracts, strict=True)))
        shown = story.shown()["difficulty"]
        assert [m["scoring_contract"] for m in shown["models"]] == list(contracts)
        assert story.has("difficulty.scoring-contracts-differ") == said


class TestHistoryFollowUpsAndContext:
    def test_other_reports_stand_in_the_history_newest_first_with_their_own_status(self):
        story = rated()
        story.report(protocol="unnamed")
        story.report(limits={"context_window": 1})
        story.report()
        shown = story.shown()["difficulty"]
        assert shown["status"] == "current"
        assert [h["status"] for h in shown["history"]] == ["invalid", "historical"]
        assert [h["protocol"] for h in shown["history"]] == [V2.protocol, "unnamed"]
        assert all(h["models"] for h in shown["history"])

    def test_the_newest_that_is_current_is_shown_before_a_newer_one_that_is_not(self):
        story = rated()
        current = story.report()
        story.report(protocol="unnamed")
        shown = story.shown()["difficulty"]
        assert (shown["pos"], [h["status"] for h in shown["history"]]) == (int(current[1:]), ["historical"])

    def test_hidden_figures_are_hidden_in_the_history_too(self):
        story = rated()
        story.report()
        story.report()
        story.add(confirmed())
        assert [h["models"] for h in story.shown()["difficulty"]["history"]] == [[]]

    def test_complete_follow_ups_are_shown_and_incomplete_ones_are_not(self):
        story = rated()
        story.report()
        story.add(followup("f1"))
        story.add(followup("f2", state="incomplete"))
        story.add(followup("f3", kind="alternate_checkpoint", changed_parameter=None))
        shown = story.shown()["difficulty"]
        told = [(f["id"], f["size"], f["label"]) for f in shown["followups"]]
        assert told == [
            ("f1", "followup", "generation setting follow-up"),
            ("f3", "hosted", "native verifier recheck"),
        ]
        assert shown["followups"][0]["outcome"]["solve_rate"] == 7 / 32
        assert shown["status"] == "current"

    def test_a_follow_up_that_is_reported_again_takes_its_own_place(self):
        story = rated()
        story.add(followup("f1"))
        story.add(followup("f1", changed_parameter="seed"))
        assert [f["changed_parameter"] for f in story.shown()["difficulty"]["followups"]] == ["seed"]

    def test_while_a_defect_is_open_they_are_hidden_as_the_report_is(self):
        story = rated()
        story.add(followup("f1"))
        story.add(confirmed())
        assert story.shown()["difficulty"]["followups"] == []

    @pytest.mark.parametrize("quality", ["unreviewed", "good", "bad"])
    def test_context_is_shown_for_every_quality(self, quality):
        story = Told().listed()
        if quality != "unreviewed":
            story.review("r1", bad if quality == "bad" else None)
        story.add(context())
        shown = story.shown()
        assert shown["quality"] == quality
        told = shown["difficulty"]["context"]
        assert (told["solved"], told["verified"], told["attempted"]) == (2, 3, None)
        assert told["reviewers"] == ["Solver"]
        assert told["limitations"] == ["Three tasks.", "An earlier release."]
        assert told["applicability"] == "historical"

    def test_context_of_any_shape_is_taken_for_what_it_holds(self):
        story = Told().listed()
        story.add(
            context(solved=True, verified=-1, attempted=2**60, configured_model_reviewers={"label": 3}, limitations=[1])
        )
        told = story.shown()["difficulty"]["context"]
        assert [told[name] for name in ("solved", "verified", "attempted")] == [None, None, None]
        assert (told["reviewers"], told["limitations"]) == ([], ["An earlier release."])

    def test_there_is_none_before_it_is_recorded(self):
        assert Told().listed().shown()["difficulty"]["context"] is None
