"""Values that payload fields hold: nothing is lost on the way to bytes."""

from __future__ import annotations

import json
import math

import pytest
from pydantic import ValidationError

from ledger.core.errors import InvalidInput
from ledger.events import REGISTRY, difficulty, policy
from ledger.events.examples import example
from ledger.events.fields import ArtifactRef, artifacts_in


def report(**members: object) -> dict[str, object]:
    return {**json.loads(example("difficulty.reported", 1))["models"][0], **members}


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_a_metric_that_is_not_finite_is_carried_by_name(name: str) -> None:
    model = difficulty.ReportedModel.model_validate_json(json.dumps(report(solve_rate=name)))

    assert json.loads(model.model_dump_json())["solve_rate"] == name


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_metric_that_is_not_finite_is_no_number(value: float) -> None:
    with pytest.raises(ValidationError, match="write a value that is not finite as the string"):
        difficulty.ReportedModel.model_validate(report(solve_rate=value))


@pytest.mark.parametrize(("value", "written"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")])
def test_in_a_free_form_part_it_is_written_by_name_and_never_as_null(value: float, written: str) -> None:
    model = policy.ProtocolModel(size="small", model="m", reasoning="", generation_parameters={"a": [value]})

    assert json.loads(model.model_dump_json())["generation_parameters"] == {"a": [written]}


@pytest.mark.parametrize("literal", [b"NaN", b"Infinity", b"1e999", b"9007199254740992", b'"\\ud800"', b'"\\u0000"'])
def test_a_free_form_part_holds_strict_json_only(literal: bytes) -> None:
    payload = example("difficulty.reported", 1).replace(b'"math-answer"', literal)

    with pytest.raises(InvalidInput) as caught:
        REGISTRY.check("difficulty.reported", 1, payload)

    assert [p.place for p in caught.value.problems] == ["/verifier_configuration/env_class"]


def test_a_payload_cannot_be_changed_once_made() -> None:
    model = policy.RulesAdopted(rules="r", digest="a" * 64)

    with pytest.raises(ValidationError, match="frozen"):
        model.rules = "other"  # type: ignore[misc]


@pytest.mark.parametrize("value", ["1", 1.0, True, None])
def test_nothing_is_taken_for_a_count_but_an_integer(value: object) -> None:
    with pytest.raises(ValidationError, match="Input should be a valid integer"):
        difficulty.ReportedModel.model_validate(report(solved=value))


def test_every_artifact_of_a_payload_is_found_in_order() -> None:
    payload = REGISTRY.read("defect.confirmed", 1, example("defect.confirmed", 1))

    assert [ref.name for ref in artifacts_in(payload)] == [
        "defects/thousands/input-0.json",
        "defects/thousands/input-1.json",
        "defects/thousands/verifier.stdout",
    ]


def test_an_artifact_deep_inside_is_found_too() -> None:
    payload = REGISTRY.read("review.published", 1, example("review.published", 1))

    assert [ref.name for ref in artifacts_in(payload)] == [
        "quality-reviews.json",
        "run.json",
        "audits/word-problems.json",
    ]
    assert artifacts_in([ArtifactRef(name="a", sha256="a" * 64), "text", None])[0].name == "a"
