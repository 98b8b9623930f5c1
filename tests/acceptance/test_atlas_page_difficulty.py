"""What the Atlas page says of Difficulty, asked through both doors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.curated import SOME_ISSUES, Curated
from tests.acceptance.doors import rules_of, text_of

Report = dict[str, Any]


def under_an_earlier_protocol(report: Report) -> None:
    report["protocol"] = {"id": "atlas-difficulty-v1-8k"}
    report["models"] = [report["models"][0] | {"model": "Qwen/Qwen3.5-9B"}]


class TestTheReport:
    def test_a_source_without_a_report_is_not_measured(self, source: Curated) -> None:
        source.review()

        shown = source.shown()["difficulty"]
        assert shown["status"] == "not_measured"
        assert not any(value for name, value in shown.items() if name != "status")

    def test_current_comparisons_use_three_fixed_models(self, source: Curated) -> None:
        source.review()
        before = source.doors.size
        source.measure()

        assert source.difficulty(at=before) == "not_measured"
        shown = source.shown()["difficulty"]
        assert (shown["status"], shown["protocol"]) == ("current", "atlas-difficulty-v2-65k16k")
        assert [(m["size"], m["model"]) for m in shown["models"]] == [
            ("small", "Qwen/Qwen3-Coder-30B-A3B-Instruct"),
            ("large", "Qwen/Qwen3.5-122B-A10B"),
            ("hosted", "zai-org/GLM-5.3"),
        ]

    def test_the_denominator_is_the_saved_verified_count_and_is_not_recomputed(self, source: Curated) -> None:
        def thirty_of_them(report: Report) -> None:
            report["models"][0] |= {"solved": 15, "verified": 30, "unverified": 2, "attempted": 32, "solve_rate": 0.9}

        source.review()
        source.measure(thirty_of_them)

        small = source.shown()["difficulty"]["models"][0]
        assert (small["solved"], small["verified"], small["unverified"], small["attempted"]) == (15, 30, 2, 32)
        assert small["solve_rate"] == 0.5

    def test_the_report_includes_uncertainty(self, source: Curated) -> None:
        source.review()
        source.measure()

        small = source.shown()["difficulty"]["models"][0]
        assert (round(small["wilson_low"], 4), round(small["wilson_high"], 4)) == (0.2041, 0.5169)

    def test_with_nothing_verified_there_is_no_solve_rate(self, source: Curated) -> None:
        def nothing(report: Report) -> None:
            report["models"][0] |= {"solved": 0, "verified": 0, "unverified": 32, "solve_rate": None, "wilson_95": None}

        source.review()
        source.measure(nothing)

        small = source.shown()["difficulty"]["models"][0]
        assert (small["solve_rate"], small["wilson_low"], small["wilson_high"]) == (None, None, None)

    def test_unknown_counts_of_a_report_stay_unknown(self, source: Curated) -> None:
        def forget(report: Report) -> None:
            del report["models"][0]["unverified"], report["models"][0]["attempted"], report["estimated_at"]

        source.review()
        source.measure(forget)

        shown = source.shown()["difficulty"]
        assert shown["estimated_at"] is None
        assert (shown["models"][0]["unverified"], shown["models"][0]["attempted"]) == (None, None)

    @pytest.mark.parametrize("who", ["curator-1", "curator-2"])
    def test_publishing_a_report_twice_is_one_report_whoever_does_it(self, source: Curated, who: str) -> None:
        report = source.report()
        (first,) = source.doors.record("difficulty", "publish", report)

        again = source.doors.tell("difficulty", "publish", report, "--actor", who, "--actor-kind", "human")

        assert again["events"] == [first | {"already_recorded": True}]

    def test_a_follow_up_stands_beside_the_comparison_and_replaces_nothing(self, source: Curated) -> None:
        def followed(report: Report) -> None:
            large = report["models"][1]
            outcome = {name: large[name] for name in ("model", "solved", "verified", "generation_parameters")}
            report["protocol_followups"] = [
                outcome | {"id": "longer-output", "kind": "parameter", "state": "complete", "solved": 30,
                           "changed_parameter": {"max_tokens": 32768}},
            ]  # fmt: skip

        source.review()
        events = source.measure(followed)

        assert [e["type"] for e in events] == ["difficulty.reported", "difficulty.followup_reported"]
        shown = source.shown()["difficulty"]
        assert (shown["status"], [m["solved"] for m in shown["models"]]) == ("current", [11, 17, 21])
        assert source.doors.payload(events[1]["pos"])["outcome"]["solved"] == 30


class TestHistorical:
    def test_earlier_comparisons_display_their_actual_model_names_and_historical_status(self, source: Curated) -> None:
        source.review()
        source.measure(under_an_earlier_protocol)

        shown = source.shown()
        assert shown["difficulty"]["status"] == "historical"
        assert [m["model"] for m in shown["difficulty"]["models"]] == ["Qwen/Qwen3.5-9B"]
        assert "atlas-difficulty-v1-8k" in text_of(shown, "difficulty")

    def test_a_current_measurement_is_shown_before_an_earlier_comparison(self, source: Curated) -> None:
        source.review()
        source.measure()
        before = source.doors.size
        source.measure(under_an_earlier_protocol)

        assert source.shown()["difficulty"] == source.shown(at=before)["difficulty"]

    def test_only_a_source_that_qualifies_as_good_has_a_current_difficulty(self, source: Curated) -> None:
        source.review(**SOME_ISSUES)
        source.measure()
        assert source.difficulty() == "historical"
        assert rules_of(source.shown(), "difficulty") == ["difficulty.not-good"]
        before = source.doors.size

        source.review()
        assert (source.difficulty(at=before), source.difficulty()) == ("historical", "current")


class TestWithheld:
    def test_an_open_confirmed_defect_prevents_displaying_a_current_difficulty_estimate(self, source: Curated) -> None:
        source.review()
        source.measure()
        before = source.doors.size

        source.confirm()

        assert source.difficulty(at=before) == "current"
        shown = source.shown()["difficulty"]
        assert (shown["status"], shown["models"]) == ("withheld", [])

    def test_a_report_that_is_published_while_a_defect_is_open_is_withheld_too(self, source: Curated) -> None:
        source.review()
        source.confirm()
        source.measure()

        assert source.difficulty() == "withheld"

    @pytest.mark.parametrize("changed", ["dataset", "verifier"])
    def test_changed_data_or_verifier_revisions_hide_stale_difficulty_values(
        self, source: Curated, changed: str
    ) -> None:
        source.review()
        source.measure()
        before = source.doors.size

        source.revise(**{changed: "9" * 40})

        assert source.difficulty(at=before) == "current"
        shown = source.shown()["difficulty"]
        assert (shown["status"], shown["models"]) == ("needs_re_review", [])

    def test_a_report_on_other_revisions_is_no_current_comparison_though_the_review_is_current(
        self, source: Curated
    ) -> None:
        source.review()
        source.measure(lambda report: report.update(source_revision="a" * 40))

        shown = source.shown()
        assert (shown["quality"], shown["applicability"]) == ("good", "current")
        assert shown["difficulty"]["status"] == "needs_re_review"

    def test_existing_reports_are_labelled_historical_once_good_returns_and_a_new_one_is_current(
        self, source: Curated
    ) -> None:
        source.review()
        (measured,) = source.measure()
        source.confirm()
        source.repair()
        waiting = source.doors.size
        source.review()
        good_again = source.doors.size
        source.measure()

        assert source.difficulty(at=waiting) == "historical"
        assert (source.quality(at=good_again), source.difficulty(at=good_again)) == ("good", "historical")
        assert rules_of(source.shown(at=good_again), "difficulty") == ["difficulty.before-defect"]
        assert (source.quality(), source.difficulty()) == ("good", "current")
        assert source.doors.payload(measured["pos"])["models"][0]["solved"] == 11


def _set(path: str, value: object) -> Callable[[Report], None]:
    """An edit that puts a value at a dotted path."""

    def edit(report: Report) -> None:
        holder: Any = report
        *parents, last = path.split(".")
        for name in parents:
            holder = holder[int(name) if isinstance(holder, list) else name]
        holder[last] = value

    return edit


SETTINGS = [
    ("protocol.context_window", 32_768, "context_window is 32768 (the protocol says 65536)"),
    ("protocol.max_input_tokens", 16_384, "max_input_tokens is 16384 (the protocol says 49152)"),
    ("protocol.max_output_tokens", 49_152, "max_output_tokens is 49152 (the protocol says 16384)"),
    ("models.0.generation_parameters.temperature", 1, "small temperature is 1 (the protocol says 0.7)"),
    ("models.0.generation_parameters.top_p", 0.8, "small top_p is 0.8 (the protocol says 0.95)"),
    ("models.0.generation_parameters.top_k", 40, "small top_k is 40 (the protocol says 20)"),
    ("models.0.generation_parameters.min_p", 0.1, "small min_p is 0.1 (the protocol says 0)"),
    ("models.1.generation_parameters.repetition_penalty", 1.1, "large repetition_penalty is 1.1"),
    ("models.1.generation_parameters.presence_penalty", 1.5, "large presence_penalty is 1.5 (the protocol says 0)"),
    ("models.2.generation_parameters.frequency_penalty", 1, "hosted frequency_penalty is 1 (the protocol says 0)"),
    ("models.1.generation_parameters.chat_template_kwargs", {"enable_thinking": False}, "large chat_template_kwargs"),
    ("models.2.generation_parameters.reasoning_effort", "high", 'hosted reasoning_effort is "high"'),
    ("models.2.model", "zai-org/GLM-5.2-AWQ", 'hosted model is "zai-org/GLM-5.2-AWQ"'),
]


def test_a_report_under_v2_with_other_settings_is_historical_and_the_reason_names_them(source: Curated) -> None:
    source.review()
    for path, value, said in SETTINGS:
        source.measure(_set(path, value))

        shown = source.shown()
        assert shown["difficulty"]["status"] == "historical", path
        assert rules_of(shown, "difficulty") == ["difficulty.protocol-mismatch"], path
        assert said in text_of(shown, "difficulty")
    source.measure()
    assert source.difficulty() == "current"
