"""The shipped difficulty protocols: whole definitions, as events have them."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from ledger.client import protocols
from ledger.core.errors import NotFound
from ledger.events import REGISTRY
from ledger.rules import atlas_page_1
from ledger.rules.atlas_code_1.protocols import ACCEPTED, JUDGE_KEY, LIMITS, MODELS, PARAMETERS

V2 = "atlas-difficulty-v2-65k16k"
V3 = "atlas-difficulty-v3-65k16k-qwen-recommended-nonthinking"
V4_JUDGE = "atlas-difficulty-v4-judge-verifier-nonthinking"
V4_CHECKLIST = "atlas-difficulty-v4-checklist-judge"


def raw(name: str) -> bytes:
    return files(protocols).joinpath(f"{name}.json").read_bytes()


def test_four_are_shipped_in_order() -> None:
    assert protocols.known() == sorted([V2, V3, V4_JUDGE, V4_CHECKLIST])


@pytest.mark.parametrize("name", protocols.known())
def test_each_file_is_a_payload_of_protocol_defined_under_its_own_name(name: str) -> None:
    defined = protocols.definition(name)

    assert defined.protocol == name
    assert REGISTRY.read("protocol.defined", REGISTRY.latest("protocol.defined").version, raw(name)) == defined
    assert json.loads(defined.model_dump_json(exclude_defaults=True)) == json.loads(raw(name))


def test_v2_is_that_of_the_page() -> None:
    assert protocols.definition(V2) == atlas_page_1.V2


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_later_ones_are_those_that_the_code_accepts(name: str) -> None:
    defined = protocols.definition(name)

    assert {limit: getattr(defined, limit) for limit in LIMITS} == dict(LIMITS)
    assert {m.size: m.model for m in defined.models} == dict(MODELS)
    for model in defined.models:
        template = {"chat_template_kwargs": {"enable_thinking": False}} if model.size == "large" else {}
        assert model.generation_parameters == {**PARAMETERS[model.size], **template}


def test_large_must_record_its_template_and_hosted_its_effort_from_v3_on() -> None:
    for name in (V3, V4_JUDGE, V4_CHECKLIST):
        must_record = {m.size: set(m.must_record) for m in protocols.definition(name).models}
        assert "chat_template_kwargs" in must_record["large"]
        assert "reasoning_effort" in must_record["hosted"]
    assert [m.must_record for m in protocols.definition(V2).models] == [[], [], []]


@pytest.mark.parametrize("name", [V4_JUDGE, V4_CHECKLIST])
def test_a_v4_protocol_says_how_the_judge_is_configured(name: str) -> None:
    defined, accepted = protocols.definition(name), ACCEPTED[name]

    assert defined.judge is not None
    assert accepted is not None
    assert (defined.judge.key, defined.judge.required) == (JUDGE_KEY, accepted.required)
    assert (defined.judge.not_empty, tuple(defined.sources)) == ([accepted.not_empty], accepted.sources)


def test_only_the_checklist_is_for_some_sources_alone() -> None:
    assert [name for name in protocols.known() if protocols.definition(name).sources] == [V4_CHECKLIST]


@pytest.mark.parametrize("name", ["nope", "", "__init__", f"../protocols/{V2}", f"{V2}.json"])
def test_another_name_is_not_found_and_the_known_ones_are_named(name: str) -> None:
    with pytest.raises(NotFound) as refused:
        protocols.definition(name)

    assert V3 in refused.value.remedy
