"""What is shown of a run, small and in full, and the set as one object."""

from __future__ import annotations

import inspect
import json
from typing import Any, get_args

import msgspec
import pytest
from pydantic import BaseModel

from ledger.events import REGISTRY
from ledger.rules import RuleEvent
from ledger.rules.training_1 import RULES, decoding, reading

from .training_1_stories import CAMPAIGN, CLAIMED, EXPORT, RUN, Story, example, metrics, selection, sha

SAMPLE = {"engine": "0", "sampled_at": "2026-07-27T08:20:00Z", "metrics": {}}


def types_of(kind: str) -> list[str]:
    return [type_.type for type_ in REGISTRY if kind in type_.streams]


def with_every_type(stream: str) -> Story:
    story = Story(stream)
    for type_ in types_of(stream.partition("/")[0]):
        story.add(type_, example(type_))
    return story


class TestTheSet:
    @pytest.mark.parametrize("stream", [RUN, EXPORT, CAMPAIGN])
    def test_every_type_of_a_stream_is_taken_and_the_dossier_fits_its_message(self, stream):
        story = with_every_type(stream)
        story.dossier()
        kept = RULES.encode_facts(story.facts)
        assert RULES.encode_facts(RULES.decode_facts(kept)) == kept
        assert RULES.decode_facts(kept) == story.facts or stream == RUN  # an example of a run measures a NaN

    @pytest.mark.parametrize("stream", [RUN, EXPORT, CAMPAIGN])
    def test_nothing_is_shown_before_the_first_event(self, stream):
        assert Story(stream).shown() is None

    @pytest.mark.parametrize("stream", [RUN, EXPORT, CAMPAIGN])
    def test_a_state_is_json_and_small(self, stream):
        state = with_every_type(stream).shown()
        assert len(json.dumps(state, allow_nan=False)) < 4_000
        assert state["kind"] == stream.partition("/")[0]

    def test_nothing_outside_a_stream_bears_on_it(self):
        environment = RULES.initial_environment()
        event = RuleEvent(1, "e", "run.declared", RUN, body=b"{}")
        assert RULES.environment_types == frozenset()
        assert RULES.fold_environment(environment, event) is environment
        assert RULES.touched(environment, event) == frozenset()
        assert RULES.decode_environment(RULES.encode_environment(environment)) == environment

    @pytest.mark.parametrize("type_", sorted(decoding.DECODE))
    def test_what_is_read_of_a_type_is_in_its_vocabulary(self, type_):
        read = decoding.DECODE[type_](json.dumps(example(type_)).encode())
        _in_model(type(read), _model(type_))

    def test_every_decision_of_its_streams_is_judged(self):
        decisions = {
            t.type for kind in ("run", "export", "campaign") for t in REGISTRY if kind in t.streams and t.decision
        }
        judged = {type_ for type_ in decisions if Story(_stream_of(type_)).against(type_, example(type_))}
        assert judged == decisions == {"checkpoint.selected", "export.verified"}


def _model(type_: str) -> type[BaseModel]:
    return REGISTRY.latest(type_).model


def _stream_of(type_: str) -> str:
    return EXPORT if type_.startswith("export") else RUN


def _in_model(read: type[msgspec.Struct], model: type[BaseModel]) -> None:
    """Each field that is read is a field of the model, down to the innermost struct."""
    for field in msgspec.structs.fields(read):
        assert field.encode_name in model.model_fields, (read, field.name)
        inner, outer = _innermost(field.type, msgspec.Struct), model.model_fields[field.encode_name].annotation
        if inner is not None and inner is not reading.StepMetrics:
            found = _innermost(outer, BaseModel)
            assert found is not None
            _in_model(inner, found)


def _innermost(annotation: Any, base: type) -> Any:
    if inspect.isclass(annotation) and issubclass(annotation, base):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _innermost(arg, base)) is not None), None)


class TestTheSummary:
    def test_an_open_run_without_steps(self):
        story = Story().declared(campaign_id="words", arm="arm-0", planned_steps=80)
        assert story.shown()["summary"] == {
            "id": "arm-0",
            "campaign_id": "words",
            "arm": "arm-0",
            "sources": ["Example:words"],
            "status": "open",
            "attempts": 0,
            "planned_steps": 80,
            "checkpoints": 0,
            "selected_steps": [],
            "anomalies": [],
            "completeness": "unknown",
            "flags": 0,
            "basis": "recorded",
            "rl_start": "example/base",
            "first_pos": 11,
            "last_pos": 11,
            "sample": False,
        }

    def test_a_run_that_was_trained_saved_selected_and_ended(self):
        story = Story().declared()
        story.attempt(1)
        story.series([0.25, 1.0])
        story.saved(1)
        story.saved(2)
        story.add("checkpoint.deleted", {"step": 2})
        story.add("checkpoint.selected", selection(1))
        story.ended("cancelled", reason="It diverged.", last_step=2)
        summary = story.shown()["summary"]
        assert {
            "status": "cancelled",
            "reason": "It diverged.",
            "attempts": 1,
            "last_step": 2,
            "last_durable_step": 1,
            "checkpoints": 1,
            "selected_steps": [1],
            "last_reward": 1.0,
            "last_ema": 0.5,
        }.items() <= summary.items()

    def test_no_sign_of_life_is_open_and_nothing_more(self):
        story = Story().declared()
        story.add("attempt.ended", {"attempt": 1, "ending": "failed"})
        assert story.shown()["summary"]["status"] == "open"

    def test_with_no_series_the_last_step_is_what_somebody_names(self):
        story = Story().declared(basis=CLAIMED)
        story.ended("failed", last_step=38)
        summary = story.shown()["summary"]
        assert (summary["last_step"], summary["basis"], "last_reward" in summary) == (38, "claimed", False)

    def test_what_is_claimed_of_anomalies_stands_beside_what_is_derived(self):
        story = Story().declared()
        story.series([0.5] * 12, entropies=[0.3] * 5 + [0.3 * 1.7**n for n in range(1, 8)])
        runaway = {"kind": "entropy_runaway", "statement": "Entropy rose to 30 times.", "entropy_ratio": 30}
        claimed = story.add("anomaly.claimed", {**runaway, "onset_step": 2, "reward": "NaN"})
        derived, said = story.dossier()["anomalies"]
        assert (derived["origin"], said["origin"], said["positions"]) == ("derived", "claimed", [claimed])
        assert said["numbers"] == [{"name": "entropy_ratio", "value": 30.0}, {"name": "reward", "value": "NaN"}]
        summary = story.shown()["summary"]
        assert summary["anomalies"] == ["entropy_runaway"]
        assert summary["anomaly_onset"] == derived["onset_step"] == 7
        assert "claimed_anomalies" not in summary

    def test_a_reward_that_is_no_number_is_shown_by_name(self):
        story = Story().declared()
        story.series([0.5, "NaN"])
        summary = story.shown()["summary"]
        assert (summary["last_reward"], summary["last_ema"], summary["anomalies"]) == ("NaN", 0.5, ["non_finite"])

    def test_a_sample_stays_one(self):
        story = Story()
        story.add("run.declared", {"rl_start": None, "sources": []}, sample=True)
        story.step(1)
        assert story.shown()["summary"]["sample"] is True

    def test_samples_of_engines_are_counted_and_show_nothing(self):
        story = Story().declared()
        before, shown = story.facts, story.shown()
        story.add("engine.sampled", {"attempt": 1, "samples": [SAMPLE]})
        assert story.facts is before
        story.add("engine.sampled", {"attempt": 1, "samples": [SAMPLE]}, producer=("rank-0", 1, 1))
        assert story.facts is not before
        assert not RULES.shows_alike(story.facts, Story().declared().facts)
        assert story.shown() == shown


class TestWhatLineageNeeds:
    def test_sources_selections_resumes_and_publications_stand_with_their_positions(self):
        story = Story().declared()
        start = story.attempt(1, {"step": 30, "run_id": "warm-up", "digest": sha("w")})
        saved = story.saved(35)
        resumed = story.attempt(2, 35)
        chosen = story.add("checkpoint.selected", selection(35, digest=sha("1-35"), attempt=1))
        traces = story.add("traces.published", {"repository": "example/traces", "commit": "c1"})
        logs = story.add("logs.published", {"repository": "example/model", "commit": "c2", "basis": CLAIMED})
        state = story.shown()
        assert state["sources"] == [
            {
                "atlas_id": "Example:words",
                "dataset_id": "example/words",
                "dataset_revision": "1" * 40,
                "verifier_revision": None,
                "role": "train",
                "pos": 11,
                "withdrawn": False,
            }
        ]
        assert (state["declared_pos"], state["selection_pos"], state["ended_pos"]) == (11, chosen, None)
        other = {"run_id": "warm-up", "step": 30, "digest": sha("w"), "pos": start}
        assert state["resumed_from_runs"] == [other]
        assert state["resumes"] == [{"attempt": 2, "step": 35, "digest": None, "pos": resumed}]
        assert [(c["step"], c["pos"], c["status"], c["selected"]) for c in state["checkpoints"]] == [
            (35, saved, "committed", True)
        ]
        assert [(t["pos"], t["basis"]) for t in state["traces"] + state["logs"]] == [
            (traces, "recorded"),
            (logs, "claimed"),
        ]

    def test_a_source_stands_with_the_first_declaration_that_names_it(self):
        story = Story()
        sources = [
            {"atlas_id": "Example:words", "dataset_id": "example/words"},
            {"atlas_id": "Example:words", "dataset_id": "mirror/words", "dataset_revision": "2" * 40},
            {"atlas_id": None, "dataset_id": "example/sums"},
        ]
        first = story.add("run.declared", {"rl_start": None, "sources": sources[:1]})
        second = story.add("run.declared", {"rl_start": None, "sources": sources[1:]})
        story.add("run.declared", {"rl_start": None, "sources": sources[1:]})
        assert [(s["dataset_id"], s["dataset_revision"], s["pos"]) for s in story.shown()["sources"]] == [
            ("mirror/words", "2" * 40, first),
            ("example/sums", None, second),
        ]

    def test_what_only_an_earlier_declaration_names_stays_and_is_marked(self):
        story = Story().declared()
        words = {"atlas_id": "Example:words", "dataset_id": "example/words"}
        again = story.add("run.declared", {"rl_start": None, "sources": [{**words, "dataset_revision": "2" * 40}]})
        story.add("run.declared", {"rl_start": None, "sources": [{**words, "atlas_id": "Example:more"}]})
        assert [(s["atlas_id"], s["dataset_revision"], s["pos"], s["withdrawn"]) for s in story.shown()["sources"]] == [
            ("Example:more", None, again + 1, False),
            ("Example:words", "2" * 40, 11, True),
            ("Example:words", "1" * 40, 11, True),
        ]
        assert story.shown()["summary"]["sources"] == ["Example:more"]

    def test_a_source_that_a_later_declaration_only_says_more_of_is_not_withdrawn(self):
        story = Story()
        known: dict[str, Any] = {"atlas_id": None, "dataset_id": "example/words"}
        for more in ({}, {"atlas_id": "Example:words"}, {"dataset_revision": "1" * 40}, {"verifier_revision": "v1"}):
            known |= more
            story.add("run.declared", {"rl_start": None, "sources": [known]})
        assert [(s["verifier_revision"], s["withdrawn"]) for s in story.shown()["sources"]] == [("v1", False)]

    def test_a_source_that_is_later_only_evaluated_on_stays_as_one_trained_on(self):
        story = Story().declared()
        evaluated = {**story.shown()["sources"][0], "role": "eval"}
        source = {name: evaluated[name] for name in ("atlas_id", "dataset_id", "dataset_revision", "role")}
        story.add("run.declared", {"rl_start": None, "sources": [source]})
        assert [(s["role"], s["withdrawn"]) for s in story.shown()["sources"]] == [("eval", False), ("train", True)]

    def test_of_many_checkpoints_the_latest_and_those_in_use_are_told(self):
        story = Story().declared()
        for step in range(1, 31):
            story.saved(step)
        story.add("checkpoint.selected", selection(3))
        story.attempt(2, 5)
        assert [c["step"] for c in story.shown()["checkpoints"]] == [3, 5, *range(23, 31)]
        assert len(story.dossier()["checkpoints"]) == 30


class TestTheDossier:
    def test_why_a_selected_step_is_not_eligible_is_said_once(self):
        for interval in (5, None):
            story = Story().declared(checkpoint_interval=interval).series([0.5] * 8)
            story.saved(7)
            story.add("checkpoint.selected", selection(7, {"first_eligible": 8}))
            (chosen,) = story.dossier()["selections"]
            reasons = ["step 7 is before step 8, the first eligible one"]
            if interval:
                reasons.append("step 7 is no multiple of the interval 5")
            assert [sum(reason in note for note in chosen["notes"]) for reason in reasons] == [1] * len(reasons)

    def test_attempts_with_what_a_later_one_made_again(self):
        story = Story().declared()
        first = story.attempt(1, started_at="2026-07-27T08:20:00Z")
        story.series([0.1, 0.2, 0.3, 0.4])
        story.saved(2)
        crash = {"ending": "failed", "error_type": "OutOfMemoryError", "reason": "A worker died."}
        ended = story.add("attempt.ended", {"attempt": 1, **crash})
        story.attempt(2, 2)
        story.series([0.5], attempt=2, first=3)
        one, two = story.dossier()["attempts"]
        assert one == {
            "attempt": 1,
            "started_pos": first,
            "started_at": "2026-07-27T08:20:00Z",
            "first_step": 1,
            "last_step": 4,
            "steps": 4,
            "status": "failed",
            "reason": "A worker died.",
            "error_type": "OutOfMemoryError",
            "ended_pos": ended,
            "abandoned_steps": 2,
        }
        assert (two["status"], two["resumed_from_step"], two["abandoned_steps"]) == ("open", 2, 0)

    def test_an_attempt_that_only_loaded_began_with_what_it_loaded(self):
        story = Story().declared()
        story.series([0.9, 0.1])
        story.add("checkpoint.loaded", {"attempt": 2, "step": 1})
        story.step(2, 0.3, attempt=2)
        assert story.dossier()["reward"]["last_ema"] == pytest.approx(0.9 * 2 / 3 + 0.1)

    def test_a_checkpoint_that_is_loaded_in_the_midst_of_an_attempt_is_not_what_it_began_with(self):
        story = Story().declared()
        story.attempt(1)
        story.series([0.3, 0.6, 0.9])
        before = story.dossier()["reward"]
        assert before["steps"] == 3
        for step in (2, 99):
            story.add("checkpoint.loaded", {"attempt": 1, "step": step})
            assert story.dossier()["reward"] == before
        assert "STEPS_NUMBERED_ANEW" not in story.codes()
        story.step(4, 0.9)
        assert story.dossier()["reward"]["last_ema"] == pytest.approx(before["last_ema"] * 2 / 3 + 0.3)

    def test_a_checkpoint_that_is_told_of_after_imported_steps_is_what_their_attempt_began_with(self):
        story = Story().declared()
        story.series([0.9, 0.1])
        imported = {"kind": "imported", "document": {"name": "train.log", "sha256": sha("log")}}
        steps = [{"step": 2, "metrics": metrics(0.3)}]
        story.add("steps.logged", {"attempt": 2, "steps": steps, "basis": imported})
        story.add("checkpoint.loaded", {"attempt": 2, "step": 1})
        assert story.dossier()["reward"]["last_ema"] == pytest.approx(0.9 * 2 / 3 + 0.1)

    def test_the_digest_says_with_which_of_two_checkpoints_of_one_step_an_attempt_began(self):
        story = Story().declared()
        story.series([0.9, 0.9])
        story.saved(2)
        story.attempt(2)
        story.series([0.3, 0.3], attempt=2)
        story.saved(2, attempt=2)
        story.attempt(3, {"step": 2, "digest": sha("1-2")})
        story.step(3, 0.9, attempt=3)
        assert story.dossier()["reward"]["last_ema"] == pytest.approx(0.9)

    def test_rewards_over_the_last_lineage(self):
        story = Story().declared()
        story.series([0.5, 0.8, "NaN", 0.2], entropies=[0.4, 0.3])
        reward = story.dossier()["reward"]
        assert reward == {
            "metric": "reward/avg_raw_reward",
            "steps": 4,
            "first": 0.5,
            "last": 0.2,
            "max": 0.8,
            "max_step": 2,
            "last_ema": pytest.approx(0.2 / 3 + 0.6 * 2 / 3),
            "not_finite": 1,
            "alpha": 1 / 3,
            "entropy_first": 0.4,
            "entropy_last": 0.3,
        }

    def test_a_checkpoint_before_the_collapse_is_told_apart(self):
        story = Story().declared(checkpoint_interval=5)
        story.series([0.6] * 10 + [0.0] * 6)
        for step in (5, 10, 15):
            story.saved(step)
        states = [(c["step"], c["before_collapse"]) for c in story.dossier()["checkpoints"]]
        assert states == [(5, True), (10, False), (15, False)]

    def test_what_an_attempt_left_behind_is_held_against_its_own_collapse(self):
        story = Story().declared(checkpoint_interval=5)
        story.attempt(1)
        story.series([0.6] * 12 + [0.0] * 8)
        for step in (5, 10, 15):
            story.saved(step)
        story.attempt(2, {"step": 10})
        story.series([0.7] * 20 + [0.0] * 8, attempt=2, first=11)
        for step in (15, 25, 35):
            story.saved(step, attempt=2)
        checkpoints = story.dossier()["checkpoints"]
        salvaged = [(c["attempt"], c["step"]) for c in checkpoints if c.get("last_before_collapse")]
        assert salvaged == [(2, 25)]
        states = {(c["attempt"], c["step"]): c["before_collapse"] for c in checkpoints}
        assert states == {
            (1, 5): True,
            (1, 10): True,
            (1, 15): False,
            (2, 15): True,
            (2, 25): True,
            (2, 35): False,
        }

    def test_what_can_be_salvaged_still_exists_and_lies_on_the_last_lineage(self):
        story = Story().declared(checkpoint_interval=5)
        story.attempt(1)
        story.series([0.6] * 14)
        for step in (5, 10, 14):
            story.saved(step)
        story.attempt(2, {"step": 10})
        story.series([0.7] * 5 + [0.0] * 8, attempt=2, first=11)

        def salvaged() -> list[int]:
            return [c["step"] for c in story.dossier()["checkpoints"] if c.get("last_before_collapse")]

        assert salvaged() == [10]
        story.add("checkpoint.deleted", {"step": 10})
        assert salvaged() == [5]

    def test_what_was_left_behind_without_a_collapse_is_before_none(self):
        story = Story().declared(checkpoint_interval=5)
        story.attempt(1)
        story.series([0.6] * 12)
        story.saved(10)
        story.saved(12)
        story.attempt(2, {"step": 10})
        story.series([0.7] * 5 + [0.0] * 8, attempt=2, first=11)
        assert [(c["step"], c["before_collapse"]) for c in story.dossier()["checkpoints"]] == [(10, True), (12, False)]

    def test_evaluations_are_answered_word_for_word(self):
        story = Story().declared()
        pos = story.add("eval.logged", example("eval.logged"))
        (first, *_) = story.dossier()["evaluations"]
        assert first["pos"] == pos
        assert first["evaluation"] == example("eval.logged")["evaluations"][0]

    def test_what_was_published_is_answered_word_for_word(self):
        story = Story().declared()
        payload = example("traces.published")
        pos = story.add("traces.published", payload)
        (traces,) = story.dossier()["traces"]
        assert (traces["pos"], traces["coverage"], traces["files"]) == (pos, payload["coverage"], payload["files"])
