"""What the Atlas page says of defects, from the suspicion to the return of Good, asked through both doors."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.core.ids import sha256_hex
from ledger.events.defects import DefectConfirmed, DefectResolved
from ledger.events.fields import ArtifactRef
from ledger.events.reviews import ReviewSuperseded
from tests.acceptance.curated import BAD, ISSUE, Curated
from tests.acceptance.doors import rules_of, text_of

OTHER_ISSUE = "https://github.com/example/atlas/issues/9"


class TestConfirmation:
    def test_suspicions_alone_do_not_confirm_a_defect(self, source: Curated) -> None:
        source.review()
        source.measure()
        before = source.doors.size

        source.suspect()

        shown = source.shown()
        assert (shown["quality"], shown["difficulty"]["status"]) == ("good", "current")
        assert shown["open_defects"] == []
        assert source.shown(at=before)["suspected_defects"] == []
        assert [d["id"] for d in shown["suspected_defects"]] == ["d1"]

    def test_confirmation_requires_actual_native_inputs(self, source: Curated) -> None:
        command = [*source.confirming()]
        without = command[: command.index("--native-input")] + command[command.index("--native-input") + 2 :]

        source.doors.refused(*without, code=2, reason="USAGE")
        assert source.quality() == "unreviewed"

    @pytest.mark.parametrize("flag", ["--expected", "--observed", "--reproduction"])
    def test_confirmation_requires_a_reproducible_mismatch_of_expected_and_observed_behavior(
        self, source: Curated, flag: str
    ) -> None:
        command = [*source.confirming()]
        without = command[: command.index(flag)] + command[command.index(flag) + 2 :]

        source.doors.refused(*without, code=2, reason="USAGE")

    def test_what_was_observed_as_it_was_expected_is_no_mismatch(self, source: Curated) -> None:
        command = [*source.confirming()]
        command[command.index("--observed") + 1] = " reward 1 "

        error = source.doors.refused(*command, code=5, reason="REFUSED_BY_RULES")

        assert [p["place"] for p in error["problems"]] == ["/observed"]
        assert source.quality() == "unreviewed"

    def test_native_inputs_that_are_not_stored_confirm_nothing(self, source: Curated) -> None:
        absent = ArtifactRef(name="case.json", sha256=sha256_hex(b"never uploaded"))
        confirmed = DefectConfirmed(
            defect="d1",
            kind="verifier",
            summary="an answer with its unit is refused",
            native_inputs=[absent],
            expected="reward 1",
            observed="reward 0",
            reproduction="grade the saved input",
            issue_state="missing",
            issue_url=None,
        )

        error = source.doors.refused_over_grpc("defect.confirmed", source.stream, confirmed)

        assert error.reason == "ARTIFACT_MISSING"
        assert absent.sha256 in error.message + "".join(p.message + p.place for p in error.problems)
        assert source.quality() == "unreviewed"

    @pytest.mark.parametrize("kind", ["verifier", "task-import", "judge-output"])
    def test_a_reproduced_verifier_task_import_or_judge_output_defect_demotes_good_to_some_issues(
        self, source: Curated, kind: str
    ) -> None:
        source.review()
        before = source.doors.size

        pos = source.confirm(kind=kind)

        assert (source.quality(at=before), source.quality(at=pos), source.quality()) == ("good", "good", "some_issues")
        (defect,) = source.shown()["open_defects"]
        assert (defect["kind"], defect["status"], defect["issue_url"], defect["pos"]) == (kind, "open", ISSUE, pos)
        why = source.doors.why(source.id)
        held = next(r for r in why["reasons"] if r["rule"] == "quality.open-defect")
        assert pos in held["events"]

    def test_a_suspicion_that_is_reproduced_becomes_the_confirmed_defect(self, source: Curated) -> None:
        source.suspect("d1")
        source.confirm("d1")

        shown = source.shown()
        assert [d["id"] for d in shown["open_defects"]] == ["d1"]
        assert shown["suspected_defects"] == []

    def test_a_confirmed_defect_names_its_github_issue_or_says_that_it_is_missing(self, source: Curated) -> None:
        source.confirm("d1", url=ISSUE)
        source.confirm("d2", url=None)

        assert {d["id"]: d["issue_url"] for d in source.shown()["open_defects"]} == {"d1": ISSUE, "d2": None}
        assert "issue missing" in source.doors.run("source", "show", source.id).out

    def test_a_defect_that_is_open_already_is_not_confirmed_again(self, source: Curated) -> None:
        source.confirm("d1")

        error = source.doors.refused(*source.confirming("d1"), code=5, reason="REFUSED_BY_RULES")

        assert "/defect" in error["problems"][0]["place"]


class TestDemotion:
    def test_bad_ratings_are_preserved(self, source: Curated) -> None:
        source.review(**BAD)
        before = source.doors.size

        source.confirm()

        assert (source.quality(at=before), source.quality()) == ("bad", "bad")
        assert "Bad stays Bad" in text_of(source.shown(), "quality")

    def test_previous_judgments_execution_traces_and_difficulty_reports_are_preserved(self, source: Curated) -> None:
        source.review()
        (measured,) = source.measure()
        reader = source.doors.reader
        before = [e.leaf_hash for e in reader.events(streams=[source.stream])]

        source.confirm()

        after = list(reader.events(streams=[source.stream]))
        assert [e.leaf_hash for e in after][: len(before)] == before
        cited = [e["artifact"]["sha256"] for e in source.doors.payload(after[1].pos)["evidence"]]
        cited.append(source.doors.payload(measured["pos"])["report"]["sha256"])
        for number, sha256 in enumerate(cited):
            source.doors.tell("artifact", "get", sha256, "--output", f"evidence-{number}")
        assert source.difficulty(at=measured["pos"] + 1) == "current"

    def test_an_open_defect_prevents_publishers_from_restoring_good(self, source: Curated) -> None:
        source.review()
        source.confirm()
        before = source.doors.size

        review = source.review()

        shown = source.shown()
        assert (source.quality(at=before), shown["quality"]) == ("some_issues", "some_issues")
        assert (shown["review"]["id"], shown["review"]["rating"]) == (review, "good")

    def test_an_open_defect_prevents_refreshes_from_restoring_good(self, source: Curated) -> None:
        covered = source.verifier
        source.review()
        source.confirm()

        source.revise(verifier="5" * 40)
        source.revise(verifier=covered)

        assert (source.quality(), source.shown()["applicability"]) == ("some_issues", "current")

    def test_a_withdrawn_defect_is_no_longer_shown_as_open_and_its_record_stays(self, source: Curated) -> None:
        pos = source.confirm()
        source.withdraw()

        assert source.shown()["open_defects"] == []
        assert [d["id"] for d in source.shown(at=pos + 1)["open_defects"]] == ["d1"]
        assert source.doors.payload(pos)["observed"] == "reward 0"


class TestResolution:
    def test_closing_an_issue_or_merging_a_fix_alone_does_not_clear_the_defect(self, source: Curated) -> None:
        source.review()
        source.confirm()
        source.doors.refused("defect", "resolve", source.id, "d1", code=4, reason="NOT_FOUND")

        source.validate(replay=None, controls=(), evidence=False)
        error = source.doors.refused("defect", "resolve", source.id, "d1", code=5, reason="REFUSED_BY_RULES")

        assert {p["place"] for p in error["problems"]} == {"/validation", "/review"}
        assert source.quality() == "some_issues"

    def test_clearing_requires_a_new_source_review(self, source: Curated) -> None:
        source.fix_review()
        source.confirm()
        source.validate()

        error = source.doors.refused("defect", "resolve", source.id, "d1", code=5, reason="REFUSED_BY_RULES")

        assert [p["place"] for p in error["problems"]] == ["/review"]
        assert "published before the defect" in error["problems"][0]["message"]

    @pytest.mark.parametrize(
        ("checked", "message"),
        [
            ({"replay": None}, "has no replay that passed"),
            ({"replay": "failed"}, "1 replay did not pass"),
            ({"replay": "failed"}, "has no replay that passed"),
            ({"controls": ()}, "no control with an incorrect"),
            ({"controls": (("passed", "correct"),)}, "no control with an incorrect"),
            ({"controls": (("failed", "incorrect"),)}, "control did not pass"),
            ({"evidence": False}, "no evidence is cited"),
            ({"flags": ("--verifier-revision", "6" * 40)}, "covers the verifier revision"),
            ({"flags": ("--dataset-revision", "6" * 40)}, "covers the dataset revision"),
        ],
        ids=["no-replay", "failed-replay", "replayed-in-vain", "no-control", "right-answers-only", "failed-control", "no-evidence",
             "other-verifier", "other-data"],
    )  # fmt: skip
    def test_the_repaired_behavior_is_validated_against_the_saved_inputs_and_incorrect_answers(
        self, source: Curated, checked: dict[str, Any], message: str
    ) -> None:
        source.confirm()
        source.validate(**checked)
        source.fix_review()

        error = source.doors.refused("defect", "resolve", source.id, "d1", code=5, reason="REFUSED_BY_RULES")

        assert {p["place"] for p in error["problems"]} == {"/validation"}
        assert any(message in p["message"] for p in error["problems"])
        assert [d["id"] for d in source.shown()["open_defects"]] == ["d1"]

    def test_the_resolution_collection_must_include_a_verified_native_runtime_observation(
        self, source: Curated
    ) -> None:
        source.confirm()
        source.validate()
        source.fix_review(verification="error")

        error = source.doors.refused("defect", "resolve", source.id, "d1", code=5, reason="REFUSED_BY_RULES")

        assert ["no verified native run" in p["message"] for p in error["problems"]] == [True]

    def test_a_manually_assigned_score_is_no_execution(self, source: Curated) -> None:
        def never_ran(document: dict[str, Any]) -> None:
            for review in document["reviews"]:
                if review["method"] == "runtime_execution":
                    review["tests_executed"] = False

        source.confirm()
        source.validate()
        source.fix_review(edit=never_ran)

        error = source.doors.refused("defect", "resolve", source.id, "d1", code=5, reason="REFUSED_BY_RULES")

        assert ["no verified native run" in p["message"] for p in error["problems"]] == [True]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"issue_url": OTHER_ISSUE},
            {"dataset_revision": "7" * 40},
            {"verifier_revision": "7" * 40},
            {"fix_validated": False},
        ],
        ids=lambda wrong: next(iter(wrong)),
    )
    def test_the_resolution_collection_records_the_issue_the_current_revisions_and_a_validated_fix(
        self, source: Curated, wrong: dict[str, Any]
    ) -> None:
        source.confirm()
        source.validate()
        (entry,) = source.fixed(ISSUE)
        source.review(resolved_verifier_issues=[entry | wrong])

        error = source.doors.refused("defect", "resolve", source.id, "d1", code=5, reason="REFUSED_BY_RULES")

        assert ["resolved_verifier_issues" in p["message"] for p in error["problems"]] == [True]

    def test_the_supplemental_review_that_shows_the_defect_does_not_resolve_it(self, source: Curated) -> None:
        shows_it = source.fix_review(review_pool_role="verifier_defect")
        source.doors.record(*source.confirming(), "--review", shows_it)
        source.validate()

        error = source.doors.refused(
            "defect", "resolve", source.id, "d1", "--review", shows_it, code=5, reason="REFUSED_BY_RULES"
        )

        assert any("holds the defect's evidence" in p["message"] for p in error["problems"])

    def test_the_newest_review_that_says_the_issue_is_fixed_is_the_one_that_a_resolution_rests_on(
        self, source: Curated
    ) -> None:
        source.fix_review()
        source.confirm()
        source.validate()
        source.fix_review()
        second = source.fix_review()
        source.fix_review(OTHER_ISSUE)
        source.review(resolved_verifier_issues=[source.fixed(ISSUE)[0] | {"fix_validated": False}])

        pos = source.resolve("d1")

        assert source.doors.payload(pos)["review"] == second

    def test_a_superseded_review_is_not_the_one_that_a_resolution_rests_on(self, source: Curated) -> None:
        source.confirm(url=None)
        source.validate()
        first = source.fix_review("d1")
        second = source.fix_review("d1")
        source.doors.append(
            "review.superseded",
            source.stream,
            ReviewSuperseded(review=second, superseded_by=first, reason="made on the wrong machine"),
        )

        pos = source.resolve("d1")

        assert source.doors.payload(pos)["review"] == first

    def test_a_refusal_says_how_to_name_another_review_unless_one_was_named(self, source: Curated) -> None:
        source.confirm()
        source.validate()
        other = source.review()
        command = ("defect", "resolve", source.id, "d1")

        chosen = source.doors.refused(*command, code=5, reason="REFUSED_BY_RULES")
        named = source.doors.refused(*command, "--review", other, code=5, reason="REFUSED_BY_RULES")

        assert f"the review {other}; name another with --review" in chosen["remedy"]
        assert "--review" not in named["remedy"]
        assert chosen["problems"] == named["problems"]

    def test_clearing_requires_the_applicable_revisions(self, source: Curated) -> None:
        source.confirm()
        source.validate()
        source.fix_review()
        source.revise(verifier="8" * 40)

        error = source.doors.refused("defect", "resolve", source.id, "d1", code=5, reason="REFUSED_BY_RULES")

        assert {p["place"] for p in error["problems"]} == {"/validation", "/review"}

    def test_a_validated_fix_and_a_new_review_clear_the_defect(self, source: Curated) -> None:
        source.review()
        confirmed = source.confirm()
        source.repair()

        shown = source.shown()
        assert shown["open_defects"] == []
        assert [(d["id"], d["status"]) for d in shown["resolved_defects"]] == [("d1", "resolved")]
        assert [d["id"] for d in source.shown(at=confirmed + 1)["open_defects"]] == ["d1"]

    def test_the_historical_finding_remains_in_the_review_pool(self, source: Curated) -> None:
        confirmed = source.confirm()
        source.repair()
        source.review()

        assert source.quality() == "good"
        finding = source.doors.payload(confirmed)
        assert (finding["expected"], finding["observed"]) == ("reward 1", "reward 0")
        source.doors.tell("artifact", "get", finding["native_inputs"][0]["sha256"], "--output", "case.json")
        assert source.quality(at=confirmed + 1) == "some_issues"

    def test_all_open_confirmed_defects_must_be_resolved_before_good_can_return(self, source: Curated) -> None:
        source.review()
        source.confirm("d1", url=ISSUE)
        source.confirm("d2", url=OTHER_ISSUE)
        source.validate("d1")
        source.validate("d2")
        fixed = source.fix_review(ISSUE, OTHER_ISSUE)

        source.resolve("d1", "--review", fixed)
        source.review()
        one_is_open = source.doors.size
        source.resolve("d2", "--review", fixed)
        none_is_open = source.doors.size
        source.review()

        assert source.quality(at=one_is_open) == "some_issues"
        assert source.quality(at=none_is_open) == "some_issues"
        assert source.quality() == "good"

    def test_good_returns_when_the_new_source_rating_is_published(self, source: Curated) -> None:
        source.review()
        source.confirm()
        source.repair()
        before = source.doors.size

        source.review()

        assert (source.quality(at=before), source.quality()) == ("some_issues", "good")
        assert rules_of(source.shown(), "quality") == ["quality.good"]

    def test_a_defect_that_is_there_again_is_reopened_and_demotes_again(self, source: Curated) -> None:
        source.confirm()
        source.repair()
        source.review()
        before = source.doors.size

        source.doors.record("defect", "reopen", source.id, "d1", "--reason", "it fails again")

        assert (source.quality(at=before), source.quality()) == ("good", "some_issues")
        error = source.doors.refused("defect", "resolve", source.id, "d1", code=5, reason="REFUSED_BY_RULES")
        assert {p["place"] for p in error["problems"]} == {"/validation", "/review"}

    def test_a_program_is_refused_a_resolution_with_the_same_reasons(self, source: Curated) -> None:
        source.confirm()
        source.validate(replay=None)
        review = source.fix_review()
        told = source.doors.refused("defect", "resolve", source.id, "d1", code=5, reason="REFUSED_BY_RULES")
        validation = next(
            e for e in source.doors.reader.events(streams=[source.stream], types=["defect.validation_recorded"])
        )
        name = source.doors.tell("event", "show", validation.pos)["header"]["id"]

        error = source.doors.refused_over_grpc(
            "defect.resolved", source.stream, DefectResolved(defect="d1", validation=name, review=review)
        )

        assert error.reason == "REFUSED_BY_RULES"
        assert [(p["place"], p["message"]) for p in told["problems"]] == [(p.place, p.message) for p in error.problems]
