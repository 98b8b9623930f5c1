"""What a difficulty report's file may hold, and the events that it makes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ledger.client import actor
from ledger.client.difficulty import UNNAMED, plan_difficulty, read_difficulty
from ledger.client.difficulty_context import plan_context
from ledger.client.drafts import Publication
from ledger.core.errors import InvalidInput
from ledger.core.ids import sha256_hex
from ledger.events import REGISTRY
from tests.support.privileges import readable_by_all, without_privileges

VECTORS = Path(__file__).parent.parent / "vectors" / "difficulty"
BAD = json.loads((VECTORS / "expected.json").read_text())
GOOD = VECTORS / "good" / "difficulty.json"
SVAMP = "MarinSkyRL:svamp"


def plan(path: Path = GOOD, **more: Any) -> Publication:
    return plan_difficulty(path, source_id=SVAMP, by=actor("curator-1", "human"), **more)


def rewritten(folder: Path, **changed: Any) -> Path:
    path = folder / "difficulty.json"
    path.write_text(json.dumps({**json.loads(GOOD.read_text()), **changed}))
    return path


@pytest.mark.parametrize("name", sorted(p.name for p in (VECTORS / "bad").iterdir()))
def test_a_bad_report_is_refused_with_every_fault_and_its_place(name: str) -> None:
    path = VECTORS / "bad" / name

    with pytest.raises(InvalidInput) as refused:
        plan(path)

    assert refused.value.reason == "INVALID_FILE"
    assert refused.value.remedy
    assert {f"{path}#{place}" for place in BAD[name]} == {p.place for p in refused.value.problems}
    for place, words in BAD[name].items():
        assert any(words in p.message for p in refused.value.problems if p.place == f"{path}#{place}")


def test_every_bad_report_is_expected() -> None:
    assert {p.name for p in (VECTORS / "bad").iterdir()} == BAD.keys()


def test_a_report_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_difficulty(tmp_path / "difficulty.json")


def test_a_report_of_a_follow_up_that_cannot_be_read_is_one_problem_among_the_others() -> None:
    followup = json.loads((VECTORS / "good" / "difficulty.json").read_text())["protocol_followups"][0]
    with readable_by_all() as folder:
        path = rewritten(folder, protocol_followups=[{**followup, "report_path": "other.json"}], atlas_id="O:else")
        (folder / "other.json").write_text("{}")
        (folder / "other.json").chmod(0)

        with without_privileges(), pytest.raises(InvalidInput) as refused:
            plan(path)

    found = {p.place.partition("#")[2]: p.message for p in refused.value.problems}
    assert "cannot be read: Permission denied" in found["/protocol_followups/0/report_path"]
    assert "/atlas_id" in found


def test_the_saved_counts_are_taken_as_they_are() -> None:
    small, large, hosted = read_difficulty(GOOD).models

    assert [(m.size, m.solved, m.verified) for m in (small, large, hosted)] == [
        ("small", 11, 32),
        ("large", 17, 32),
        ("hosted", 21, 32),
    ]
    assert small.wilson_95 == [0.2041, 0.5169]
    assert large.generation_parameters["chat_template_kwargs"] == {"enable_thinking": True}


def test_the_report_is_cited_by_the_hash_of_its_file_and_uploaded() -> None:
    reported = read_difficulty(GOOD)
    publication = plan()

    assert reported.report is not None
    assert reported.report.sha256 == sha256_hex(GOOD.read_bytes())
    assert [u.sha256 for u in publication.uploads] == [reported.report.sha256]
    assert publication.uploads[0].content == GOOD.read_bytes()


def test_row_37_an_audit_of_the_order_is_warned_of_whatever_the_limitations_say_and_in_whichever_order(
    tmp_path: Path,
) -> None:
    unaudited = {**json.loads(GOOD.read_text())["protocol"], "artifacts": []}
    warning = "The order of the models may mislead: an audit of it is among the report's artifacts"

    for limitations in (["One sample.", "Another."], ["Another.", "One sample."], []):
        reported = read_difficulty(rewritten(tmp_path, limitations=limitations))
        assert reported.ordering_warning == f"{warning} (difficulty/ordering-audit.json)."
        assert reported.limitations == limitations
    assert read_difficulty(rewritten(tmp_path, protocol=unaudited)).ordering_warning is None


def test_a_report_s_own_warning_of_the_order_is_taken_as_it_is(tmp_path: Path) -> None:
    unaudited = {**json.loads(GOOD.read_text())["protocol"], "artifacts": []}
    path = rewritten(tmp_path, ordering_warning="Small and Large overlap.", protocol=unaudited)

    assert read_difficulty(path).ordering_warning == "Small and Large overlap."


@pytest.mark.parametrize("protocol", [None, {"context_window": 8192}, {"id": None}])
def test_an_archived_report_may_be_from_before_protocols_had_names(tmp_path: Path, protocol: Any) -> None:
    path = rewritten(tmp_path, protocol=protocol)

    reported = json.loads(plan(path, archived=True).parts[0].payload)

    assert reported["protocol"]["id"] == UNNAMED
    assert reported["estimated_at"] == "2026-10-03T10:00:00Z"
    with pytest.raises(InvalidInput):
        plan(path)


def test_an_archived_report_keeps_the_protocol_that_it_names() -> None:
    assert json.loads(plan(archived=True).parts[0].payload)["protocol"]["id"] == "atlas-difficulty-v2-65k16k"


def test_a_report_names_the_attestations_that_it_rests_on_and_the_scoring_contract_of_each_model(
    tmp_path: Path,
) -> None:
    models = json.loads(GOOD.read_text())["models"]
    models[0]["scoring_contract"] = "sum/1"

    reported = json.loads(plan(rewritten(tmp_path, models=models), rests_on=["event-1"]).parts[0].payload)

    assert reported["rests_on"] == ["event-1"]
    assert [m.get("scoring_contract") for m in reported["models"]] == ["sum/1", None, None]


def test_a_rate_that_is_not_finite_is_kept_by_name() -> None:
    assert read_difficulty(VECTORS / "good" / "rate-is-nan-by-name.json").models[0].solve_rate == "NaN"


def test_unknown_dates_and_revisions_stay_unknown(tmp_path: Path) -> None:
    raw = json.loads(GOOD.read_text())
    for key in ("estimated_at", "source_revision", "verifier_revision", "sampling", "split"):
        del raw[key]
    path = tmp_path / "difficulty.json"
    path.write_text(json.dumps(raw))

    reported = read_difficulty(path)

    assert (reported.estimated_at, reported.source_revision, reported.verifier_revision) == (None, None, None)
    assert (reported.sampling.task_count, reported.split) == (None, None)


def test_a_complete_follow_up_is_an_event_beside_the_report_and_a_running_one_is_not() -> None:
    publication = plan()
    followups = [json.loads(d.payload) for d in publication.parts[1:]]

    assert [d.type for d in publication.parts] == ["difficulty.reported", *["difficulty.followup_reported"] * 2]
    assert publication.closing is None
    assert [(f["followup_id"], f["outcome"]["size"], f["outcome"]["solved"]) for f in followups] == [
        ("longer-output", "followup", 7),
        ("other-checkpoint", "hosted", 20),
    ]
    assert followups[0]["changed_parameter"] == '{"max_tokens":32768}'
    assert followups[0]["report"] is None


def test_a_follow_up_s_report_is_cited_and_uploaded_where_it_lies_beside(tmp_path: Path) -> None:
    path = shutil.copy(GOOD, tmp_path / "difficulty.json")
    beside = tmp_path / "difficulty" / "followups" / "longer-output.json"
    beside.parent.mkdir(parents=True)
    beside.write_text("{}")

    publication = plan(Path(path))

    followup = json.loads(publication.parts[1].payload)
    assert followup["report"]["name"] == "difficulty/followups/longer-output.json"
    assert followup["report"]["sha256"] == sha256_hex(b"{}")
    assert followup["original_report"]["sha256"] == sha256_hex(GOOD.read_bytes())
    assert {u.sha256 for u in publication.uploads} == {sha256_hex(b"{}"), sha256_hex(GOOD.read_bytes())}


def test_a_follow_up_s_report_that_is_a_link_out_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "difficulty" / "followups").mkdir(parents=True)
    (tmp_path / "secret.json").write_text("{}")
    (folder / "difficulty" / "followups" / "longer-output.json").symlink_to(tmp_path / "secret.json")
    path = Path(shutil.copy(GOOD, folder / "difficulty.json"))

    publication = plan(path)

    assert json.loads(publication.parts[1].payload)["report"] is None
    assert sha256_hex(b"{}") not in {u.sha256 for u in publication.uploads}


def test_publishing_a_report_twice_is_the_same_events_and_another_report_is_not(tmp_path: Path) -> None:
    ids = [d.id for d in plan().parts]

    assert [d.id for d in plan().parts] == ids
    assert plan(rewritten(tmp_path, population_count=701)).parts[0].id != ids[0]
    assert plan(principal="someone").parts[0].id != ids[0]


def test_every_payload_passes_the_quick_check() -> None:
    for made in plan().parts:
        quick = REGISTRY.get(made.type, 1).quick
        assert quick is not None
        assert quick(made.payload)


CONTEXT = {
    "reviewer_rollout_baseline": {
        "solved": 2,
        "verified": 3,
        "attempted": 3,
        "unverified": 0,
        "configured_model_reviewers": [{"label": "sample/judge"}],
        "limitations": ["Three tasks."],
    },
    "historical_reference": {
        "applicability": "historical",
        "limitations": "Another verifier.",
        "artifact_path": "a.json",
    },
}


def context(folder: Path, **changed: Any) -> Publication:
    path = folder / "context.json"
    path.write_text(json.dumps({**CONTEXT, **changed}))
    return plan_context(path, source_id=SVAMP, by=actor("curator-1", "human"))


class TestContext:
    def test_the_initial_counts_and_the_earlier_evidence_are_kept_as_they_are(self, tmp_path: Path) -> None:
        [made] = context(tmp_path).parts

        said = json.loads(made.payload)
        assert made.type == "difficulty.context_recorded"
        assert {name: said[name] for name in CONTEXT} == CONTEXT
        assert said["context"]["sha256"] == sha256_hex((tmp_path / "context.json").read_bytes())

    def test_what_the_file_does_not_say_is_empty_and_the_same_file_is_the_same_event(self, tmp_path: Path) -> None:
        first, again = (context(tmp_path, historical_reference=None).parts[0] for _ in range(2))

        assert json.loads(first.payload)["historical_reference"] == {}
        assert first.id == again.id

    def test_a_local_file_is_named_nowhere(self, tmp_path: Path) -> None:
        [made] = context(tmp_path, historical_reference={"artifact_path": "file:///somewhere/a.json"}).parts

        assert b"somewhere" not in made.payload

    @pytest.mark.parametrize(
        ("changed", "place"),
        [
            ({"reviewer_rollout_baseline": None, "historical_reference": {}}, ""),
            ({"reviewer_rollout_baseline": []}, "/reviewer_rollout_baseline"),
            ({"reviewer_rollout_baseline": {"solved": 4, "verified": 3}}, "/reviewer_rollout_baseline/solved"),
            ({"reviewer_rollout_baseline": {"solved": "2"}}, "/reviewer_rollout_baseline/solved"),
            ({"historical_reference": {"applicability": 7}}, "/historical_reference/applicability"),
            ({"atlas_id": "O:else"}, "/atlas_id"),
        ],
    )
    def test_a_bad_context_is_refused_with_its_place(self, tmp_path: Path, changed: Any, place: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            context(tmp_path, **changed)

        assert [p.place.partition("#")[2] for p in refused.value.problems] == [place]
        assert "difficulty context" in refused.value.message

    def test_the_payload_passes_the_quick_check(self, tmp_path: Path) -> None:
        quick = REGISTRY.get("difficulty.context_recorded", 1).quick
        assert quick is not None
        assert quick(context(tmp_path).parts[0].payload)
