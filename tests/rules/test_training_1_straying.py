"""An event that names another stream than its own is flagged, and counts for nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.events import REGISTRY
from ledger.events.streams import stream_of
from ledger.rules import RuleEvent
from ledger.rules.training_1 import RULES
from ledger.rules.training_1.decoding import DECODE
from ledger.rules.training_1.fold import COUNTED_ONLY

from .training_1_stories import CAMPAIGN, CLAIMED, EXPORT, RUN, Story, example, selection

CODE = "NAMES_ANOTHER_STREAM"
TYPES = sorted({*DECODE, *COUNTED_ONLY, "hosting.observed"})
KINDS = ("campaign", "run", "checkpoint", "export", "model", "traces", "logs", "hosting")


def own_stream(type_: str, payload: dict[str, Any]) -> str:
    """As the vocabulary has it."""
    return stream_of(REGISTRY.latest(type_).model.model_validate(payload))


def recorded(story: Story, type_: str, payload: dict[str, Any], **header: Any) -> RuleEvent:
    event = story.said_elsewhere(type_, payload, **header)
    story.facts = RULES.fold(story.facts, event)
    return event


def claim(kind: str, id_: str = "other") -> dict[str, Any]:
    return {"subject": {"kind": kind, "id": id_}, "topic": "benchmark", "statement": "So it is.", "basis": CLAIMED}


@pytest.mark.parametrize("type_", TYPES)
def test_an_event_of_any_type_counts_in_the_stream_that_it_names_and_in_no_other(type_):
    payload = example(type_)
    own = own_stream(type_, payload)
    story, other = Story(own), Story(f"{own.partition('/')[0]}/quite-another")
    recorded(story, type_, payload, producer=("a", 1, 1))
    assert CODE not in story.codes()
    assert story.facts.epochs or type_ == "recording.reported"

    event = recorded(other, type_, payload, producer=("a", 1, 1))
    (flag,) = other.dossier()["flags"]
    assert (flag["code"], flag["positions"]) == (CODE, [event.pos])
    assert f"names {own}," in flag["message"]
    assert f"recorded in {other.stream}:" in flag["message"]
    kind = own.partition("/")[0]
    part = getattr(other.facts, kind)
    empty = getattr(RULES.initial_facts(), kind)
    assert [name for name in part.__struct_fields__ if getattr(part, name) != getattr(empty, name)] == ["strays"]
    assert (other.facts.epochs, other.facts.uncounted) == ((), 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_belongs_to_the_stream_of_what_it_is_about_as_the_vocabulary_has_it(kind):
    own = own_stream("claim.recorded", claim(kind))
    for stream in (f"{of}/other" for of in ("run", "export", "campaign")):
        story = Story(stream)
        recorded(story, "claim.recorded", claim(kind))
        assert (CODE in story.codes()) == (stream != own)
        assert len(story.dossier()["claims"]) == (stream == own)


@pytest.mark.parametrize("stream", [RUN, EXPORT, CAMPAIGN])
def test_what_is_shown_of_a_stream_counts_the_flag(stream):
    story = Story(stream)
    event = recorded(story, "run.declared", {**example("run.declared"), "run_id": "other"})
    shown = story.shown()
    summary = shown.get("summary", shown)
    assert (summary["flags"], summary["first_pos"], summary["last_pos"]) == (1, event.pos, event.pos)
    assert not shown.get("declared_pos")


def test_many_of_them_are_one_flag_with_their_count():
    story = Story().declared()
    for step in range(1, 31):
        recorded(story, "steps.logged", {"run_id": "arm-1", "attempt": 1, "steps": [{"step": step, "metrics": {}}]})
    (flag,) = story.dossier()["flags"]
    assert flag["message"].startswith("steps.logged names run/arm-1, and was recorded in run/arm-0")
    assert "29 more like it" in flag["message"]
    assert "last_step" not in story.shown()["summary"]


def test_what_names_another_stream_is_missing_among_its_producers_numbers():
    story = Story().declared()
    story.add("steps.logged", {"attempt": 1, "steps": [{"step": 1, "metrics": {}}]}, producer=("a", 1, 1))
    stray = {"run_id": "arm-1", "attempt": 1, "steps": [{"step": 2, "metrics": {}}]}
    recorded(story, "steps.logged", stray, producer=("a", 1, 2))
    story.add("recording.reported", {"producer": "a", "epoch": 1, "last_seq": 2, "closed": True})
    completeness = story.dossier()["completeness"]
    assert (completeness["verdict"], completeness["exceptions"]) == (
        "complete_except",
        ["epoch 1 of a lacks 1 event by number: 2"],
    )


def test_a_name_that_was_redacted_names_no_other_stream():
    story = Story()
    body = b'{"run_id": {"redacted": true}, "attempt": 1, "ending": "failed"}'
    story.facts = RULES.fold(story.facts, RuleEvent(11, "e", "attempt.ended", RUN, body=body))
    assert story.dossier()["attempts"][0]["status"] == "failed"


def test_a_decision_that_names_another_stream_is_refused():
    story = Story().declared().series([0.5] * 15)
    story.saved(15)
    payload = {"run_id": "arm-0", **selection(15)}
    environment = RULES.initial_environment()
    own = story.said_elsewhere("checkpoint.selected", payload)
    other = story.said_elsewhere("checkpoint.selected", {**payload, "run_id": "arm-1"})
    assert RULES.decide(own, story.facts, environment) == ()
    (problem,) = RULES.decide(other, story.facts, environment)
    assert (problem.place, problem.message) == (
        "/run_id",
        "names run/arm-1, and the decision would be recorded in run/arm-0",
    )
