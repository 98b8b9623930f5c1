"""A file of facts becomes events: whole or not at all, and the same ones however often it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.client.drafts import actor
from ledger.client.facts import plan_facts, read_facts
from ledger.core.errors import InvalidInput
from ledger.events import REGISTRY
from ledger.events.examples import example
from ledger.events.streams import stream_of

BY = actor("somebody", "human")
STORIES = sorted((Path(__file__).parents[2] / "services/cli/demo_data/runs").glob("*.json"))
ENDED = {"type": "run.ended", "payload": {"run_id": "r", "ending": "failed", "last_step": 38}}


def written(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "facts.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def refusal(path: Path) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        read_facts(path)
    return caught.value


def test_a_fact_becomes_one_event_of_the_stream_that_it_is_of(tmp_path: Path) -> None:
    found = read_facts(
        written(tmp_path, {"facts": [{**ENDED, "occurred_at": "2026-07-28T02:10:00Z", "tags": ["old"]}]})
    )

    (made,) = plan_facts(found.facts, by=BY, tags=["sample"]).parts

    assert (made.type, made.stream, list(made.tags)) == ("run.ended", "run/r", ["old", "sample"])
    assert json.loads(made.payload) == ENDED["payload"]
    assert made.occurred_at_us == 1785204600000000


def test_the_same_file_gives_the_same_ids_and_another_fact_another_one(tmp_path: Path) -> None:
    other = {**ENDED, "payload": {**ENDED["payload"], "last_step": 39}}
    ids = [
        [d.id for d in plan_facts(read_facts(written(tmp_path, {"facts": [fact]})).facts, by=BY).parts]
        for fact in (ENDED, ENDED, other)
    ]

    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    ("value", "place", "said"),
    [
        ("{", "", "JSON"),
        ({"facts": []}, "/facts", "empty"),
        ({"facts": [{"type": "run.ended"}]}, "/facts/0/payload", "required"),
        ({"facts": [{"type": "no.such", "payload": {}}]}, "/facts/0/type", "does not know"),
        ({"facts": [{"type": "defect.suspected", "payload": {}}]}, "/facts/0/type", "no type of a run"),
        ({"facts": [ENDED, {"type": "run.ended", "payload": {"run_id": "r"}}]}, "/facts/1/payload/ending", "required"),
        ({"facts": [{**ENDED, "payload": {**ENDED["payload"], "ending": "fine"}}]}, "/facts/0/payload/ending", "completed"),
        ({"facts": [{**ENDED, "occurred_at": "yesterday"}]}, "/facts/0/occurred_at", "time"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_the_place_of_each_fault(
    tmp_path: Path, value: Any, place: str, said: str
) -> None:
    error = refusal(written(tmp_path, value))

    assert error.reason == "INVALID_FILE"
    assert [p.place for p in error.problems] == [place]
    assert said.lower() in error.problems[0].message.lower()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path / "none.json").message


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_stories_that_the_demonstration_tells_are_claims_that_name_where_they_stand(path: Path) -> None:
    story = read_facts(path)

    assert story.about
    for fact in story.facts:
        basis = fact.payload.get("basis")
        if fact.type != "hosting.observed":
            assert isinstance(basis, dict)
            assert (basis["kind"], str(basis["url"])[:23]) == ("claimed", "https://huggingface.co/")
        assert fact.type != "steps.logged", "no series was published, so none may be told"


@pytest.mark.parametrize("kind", [k for k in REGISTRY if k.family in {"training", "export"}], ids=lambda k: k.type)
def test_every_event_of_a_run_or_an_export_names_its_stream(kind: Any) -> None:
    stream = stream_of(REGISTRY.read(kind.type, kind.version, example(kind.type, kind.version)))

    assert stream.partition("/")[0] in kind.streams


def test_a_payload_of_another_family_names_no_such_stream() -> None:
    with pytest.raises(ValueError, match="names no run"):
        stream_of(REGISTRY.read("review.superseded", 1, example("review.superseded", 1)))
