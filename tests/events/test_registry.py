"""The registry: each type and version once, old bytes read through upcasters, faults with their places."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from ledger.core import strictjson
from ledger.core.errors import InvalidInput
from ledger.events import REGISTRY, EventType, Registry
from ledger.events.examples import example
from ledger.events.fields import Count, Name, Record, Text

KINDS = pytest.mark.parametrize("kind", list(REGISTRY), ids=lambda k: f"{k.type}.v{k.version}")


class NoteV1(Record):
    text: str


class NoteV2(Record):
    lines: list[Text]


class NoteV3(Record):
    lines: list[Text]
    count: Count
    author: Name | None = None


def notes() -> Registry:
    """A type in its third version."""
    registry = Registry()
    for version, model in ((1, NoteV1), (2, NoteV2), (3, NoteV3)):
        registry.event("note.taken", family="notes", streams=("note",), version=version)(model)

    @registry.upcaster("note.taken", 1)
    def split(payload: dict[str, Any]) -> dict[str, Any]:
        return {"lines": payload["text"].split("\n")}

    @registry.upcaster("note.taken", 2)
    def count(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "count": len(payload["lines"])}

    return registry


def refused(type_: str, payload: object, version: int = 1, registry: Registry = REGISTRY) -> InvalidInput:
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    with pytest.raises(InvalidInput) as caught:
        registry.check(type_, version, data)
    with pytest.raises(InvalidInput):
        registry.read(type_, version, data)
    return caught.value


def places(error: InvalidInput) -> dict[str, str]:
    return {p.place: p.message for p in error.problems}


def changed(type_: str, **members: object) -> dict[str, Any]:
    return {**json.loads(example(type_, 1)), **members}


class TestVersions:
    @pytest.mark.parametrize(
        ("version", "payload"),
        [(1, {"text": "a\nb"}), (2, {"lines": ["a", "b"]}), (3, {"lines": ["a", "b"], "count": 2})],
    )
    def test_bytes_of_every_version_are_read_as_the_newest(self, version: int, payload: dict[str, Any]) -> None:
        read = notes().read("note.taken", version, json.dumps(payload).encode())

        assert read == NoteV3(lines=["a", "b"], count=2)

    def test_bytes_are_checked_as_the_version_that_they_name(self) -> None:
        notes().check("note.taken", 1, b'{"text":"a"}')

        assert places(refused("note.taken", {"text": "a"}, version=2, registry=notes())) == {
            "/lines": "Field required",
            "/text": "Extra inputs are not permitted",
        }

    def test_bytes_are_read_alike_whether_the_quick_check_proves_them_or_not(self) -> None:
        quick, spaced = b'{"lines":["a"],"count":1}', b'{"count": 1, "lines": ["a"]}'

        assert [notes().get("note.taken", 3).proves(data) for data in (quick, spaced)] == [True, False]
        assert notes().read("note.taken", 3, quick) == notes().read("note.taken", 3, spaced)

    def test_what_an_upcaster_makes_is_checked_too(self) -> None:
        with pytest.raises(InvalidInput) as caught:
            # An empty line is no Text in version 3.
            notes().read("note.taken", 1, b'{"text":"a\\n"}')

        assert places(caught.value) == {"/lines/1": "String should have at least 1 character"}

    def test_versions_are_listed_in_order_and_the_latest_is_the_last(self) -> None:
        assert notes().versions("note.taken") == [1, 2, 3]
        assert notes().latest("note.taken").model is NoteV3

    def test_types_are_listed_by_name_and_version(self) -> None:
        listed = [(k.type, k.version) for k in REGISTRY]

        assert listed == sorted(set(listed))
        assert [k.version for k in notes()] == [1, 2, 3]

    def test_the_same_version_twice_is_a_fault_of_the_program(self) -> None:
        with pytest.raises(ValueError, match=r"note\.taken version 1 is registered twice"):
            notes().event("note.taken", family="notes", streams=("note",))(NoteV1)

    def test_the_same_step_twice_is_a_fault_of_the_program(self) -> None:
        with pytest.raises(ValueError, match=r"the step from note\.taken version 1 is registered twice"):
            notes().upcaster("note.taken", 1)(lambda payload: payload)

    def test_the_digest_of_upcasters_tells_other_steps_and_not_other_comments(self) -> None:
        def one() -> Registry:
            registry = Registry()

            @registry.upcaster("note.taken", 1)
            def step(payload: dict[str, Any]) -> dict[str, Any]:
                return {"lines": [payload["text"]]}

            return registry

        def commented() -> Registry:
            registry = Registry()

            @registry.upcaster("note.taken", 1)
            def step(payload: dict[str, Any]) -> dict[str, Any]:
                # The text as one line.
                return {
                    "lines": [payload["text"]],
                }

            return registry

        assert one().upcaster_digest() == commented().upcaster_digest()
        assert len({Registry().upcaster_digest(), one().upcaster_digest(), notes().upcaster_digest()}) == 3


class TestUnknown:
    def test_an_unknown_type_is_refused_with_the_way_to_the_known_ones(self) -> None:
        error = refused("no.such", b"{}")

        assert error.reason == "UNKNOWN_EVENT_TYPE"
        assert "'no.such'" in error.message
        assert error.remedy == "GetInfo and `ledger schema list` name the types."
        assert error.details == {"type": "no.such", "type_version": "1", "known_versions": ""}

    def test_an_unknown_version_is_refused_with_the_version_to_send(self) -> None:
        error = refused("note.taken", b"{}", version=4, registry=notes())

        assert error.reason == "UNKNOWN_EVENT_TYPE"
        assert "version 4" in error.message
        assert error.remedy == "Send version 3."
        assert error.details["known_versions"] == "1,2,3"

    def test_the_latest_version_of_an_unknown_type_is_refused_too(self) -> None:
        with pytest.raises(InvalidInput, match="this server does not know it"):
            REGISTRY.latest("no.such")


class TestFaults:
    def test_every_fault_is_named_with_its_place(self) -> None:
        payload = changed("judgment.recorded", verdict="maybe", reviewed_at="yesterday", extra=1)
        payload["subject"].update(row_index=-1, task_id="")
        payload["findings"][0].pop("severity")

        assert places(refused("judgment.recorded", payload)) == {
            "/subject/task_id": "String should have at least 1 character",
            "/subject/row_index": "Input should be greater than or equal to 0",
            "/reviewed_at": "'yesterday' is no RFC 3339 time with an offset, such as 2026-10-01T00:00:00Z",
            "/verdict": "Input should be 'keep', 'reject', 'conditional', 'inconclusive' or 'unrated'",
            "/findings/0/severity": "Field required",
            "/extra": "Extra inputs are not permitted",
        }

    def test_a_value_of_several_kinds_has_one_fault_at_its_own_place(self) -> None:
        payload = changed("judgment.recorded")
        payload["metrics"][0].update(value=[1], scale={**payload["metrics"][0]["scale"], "minimum": "-inf"})

        assert places(refused("judgment.recorded", payload)) == {
            "/metrics/0/value": "Input should be a valid boolean or a valid number or a valid string",
            "/metrics/0/scale/minimum": "Input should be a valid number or 'NaN', 'Infinity' or '-Infinity'",
        }

    def test_an_error_names_the_type_and_where_its_schema_is(self) -> None:
        error = refused("log.heads", {"size": 1})

        assert error.reason == "INVALID_PAYLOAD"
        assert error.message == "the payload is not a log.heads of version 1: /root: Field required"
        assert error.remedy == "`ledger schema show log.heads` prints the schema and an example."

    def test_a_payload_that_is_no_object_is_refused_as_a_whole(self) -> None:
        assert "the whole: Input should be an object" in refused("log.heads", [1]).message

    def test_what_is_not_strict_json_is_refused_before_its_schema(self) -> None:
        assert places(refused("log.heads", b'{"size":1,"size":1}')) == {"/size": "the key is there twice"}

    def test_no_more_faults_than_a_reader_can_take_are_named(self) -> None:
        error = refused("log.heads", {f"key {i}": 0 for i in range(5000)})

        assert len(error.problems) == strictjson.MAX_PROBLEMS

    @pytest.mark.parametrize(
        ("state", "url"), [("filed", None), ("missing", "https://example.org/word-problems/issues/17")]
    )
    def test_a_defect_says_where_its_issue_is_or_that_it_is_missing(self, state: str, url: str | None) -> None:
        payload = changed("defect.confirmed", issue_state=state, issue_url=url)

        error = refused("defect.confirmed", payload)

        assert places(error) == {"": 'issue_state "filed" needs an issue_url, and "missing" forbids one'}

    @pytest.mark.parametrize("pointer", ["summary", "/a~2b", "/a~"])
    def test_a_redaction_names_json_pointers(self, pointer: str) -> None:
        assert set(places(refused("event.redacted", changed("event.redacted", pointers=[pointer])))) == {"/pointers/0"}


class TestVocabulary:
    @KINDS
    def test_a_schema_is_valid_and_takes_the_example(self, kind: EventType) -> None:
        schema = kind.model.model_json_schema()

        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(json.loads(example(kind.type, kind.version)))

    @KINDS
    def test_a_schema_refuses_what_is_not_named(self, kind: EventType) -> None:
        payload = {**json.loads(example(kind.type, kind.version)), "no such field": 1}

        assert not jsonschema.Draft202012Validator(kind.model.model_json_schema()).is_valid(payload)

    @KINDS
    def test_a_class_has_the_words_of_its_type(self, kind: EventType) -> None:
        assert kind.model.__name__ == "".join(w.title() for w in kind.type.replace(".", "_").split("_"))

    def test_the_decisions_are_those_that_the_rules_judge(self) -> None:
        assert {k.type for k in REGISTRY if k.decision} == {
            "catalogue.synced",
            "checkpoint.selected",
            "defect.confirmed",
            "defect.reopened",
            "defect.resolved",
            "defect.withdrawn",
            "event.disregarded",
            "event.redacted",
            "export.verified",
            "projection.promoted",
            "protocol.adopted",
            "protocol.defined",
            "review.published",
            "review.superseded",
            "rules.adopted",
        }

    def test_a_type_keeps_its_family_and_its_streams_over_its_versions(self) -> None:
        for kind in REGISTRY:
            first = REGISTRY.get(kind.type, REGISTRY.versions(kind.type)[0])
            assert (kind.family, kind.streams) == (first.family, first.streams)

    @KINDS
    def test_an_example_is_accepted_by_the_slow_check_alone(self, kind: EventType) -> None:
        slow = Registry({(kind.type, kind.version): replace(kind, quick=None)})

        slow.check(kind.type, kind.version, example(kind.type, kind.version))
