"""Stored examples stand for what old logs hold: they are there for every type and version, and parse for ever."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from ledger.core import strictjson
from ledger.core.ids import ids_digest
from ledger.events import REGISTRY, EventType
from ledger.events.examples import example
from ledger.events.fields import artifacts_in

KINDS = pytest.mark.parametrize("kind", list(REGISTRY), ids=lambda k: f"{k.type}.v{k.version}")

# A result has either a score or a reason: `observation.recorded` shows the one, `judgment.recorded` the other.
NOT_TOGETHER = {"Verification.score", "Verification.passed", "Verification.reason"}

# An attestation holds one claim of four; the example shows one, and the others stand beside the tests.
ATTESTATIONS = Path(__file__).parents[1] / "vectors" / "attestations"
OTHER_CLAIMS = ("ComparedObject", "NativeRevision", "ComparedFile", "Selection", "DatasetRevision", "ComparedProgram",
                "GradingApplicability")  # fmt: skip


def models_in(annotation: Any) -> set[type[BaseModel]]:
    """The models that a type mentions, and theirs."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        inner = (models_in(info.annotation) for info in annotation.model_fields.values())
        return {annotation}.union(*inner)
    return set().union(*(models_in(a) for a in get_args(annotation)))


def all_fields(kind: EventType) -> set[str]:
    return {f"{m.__name__}.{name}" for m in models_in(kind.model) for name in m.model_fields}


def filled_fields(value: Any) -> set[str]:
    """The fields that are neither null nor empty somewhere in a payload."""
    if isinstance(value, BaseModel):
        here = {
            f"{type(value).__name__}.{n}" for n in type(value).model_fields if getattr(value, n) not in (None, [], {})
        }
        return here.union(*(filled_fields(getattr(value, n)) for n in type(value).model_fields))
    return set().union(*map(filled_fields, value)) if isinstance(value, list) else set()


def read(kind: EventType) -> BaseModel:
    return REGISTRY.read(kind.type, kind.version, example(kind.type, kind.version))


def test_there_is_an_example_of_every_type_and_version_and_no_other_file() -> None:
    stored = {entry.name for entry in files("ledger.events").joinpath("examples").iterdir()}

    assert stored == {f"{kind.type}.v{kind.version}.json" for kind in REGISTRY}


def test_a_type_without_an_example_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"no\.such\.v1\.json"):
        example("no.such", 1)


@KINDS
def test_an_example_is_accepted_and_read_as_the_newest_version(kind: EventType) -> None:
    REGISTRY.check(kind.type, kind.version, example(kind.type, kind.version))

    assert isinstance(read(kind), REGISTRY.latest(kind.type).model)


@KINDS
def test_reading_an_example_loses_nothing_of_it(kind: EventType) -> None:
    stored = strictjson.parse(example(kind.type, kind.version))

    assert read(kind).model_dump(mode="json", exclude_unset=True) == stored


@KINDS
def test_an_example_fills_every_field(kind: EventType) -> None:
    missing = all_fields(kind) - filled_fields(read(kind)) - NOT_TOGETHER
    other = {
        f"AttestationRecorded.{claim}" for claim in ("native_revision", "dataset_revision", "grading_applicability")
    }
    assert {field for field in missing - other if not field.startswith(OTHER_CLAIMS)} == set()


def test_the_examples_together_fill_every_field() -> None:
    filled = set().union(*(filled_fields(read(kind)) for kind in REGISTRY))
    for path in ATTESTATIONS.glob("*_*.json"):
        filled |= filled_fields(REGISTRY.read("attestation.recorded", 1, path.read_bytes()))

    assert set().union(*map(all_fields, REGISTRY)) == filled


@KINDS
def test_an_example_is_kept_in_the_form_in_which_it_is_shown(kind: EventType) -> None:
    stored = example(kind.type, kind.version)

    assert stored.decode() == json.dumps(json.loads(stored), indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("type_", ["review.published", "catalogue.synced"])
def test_the_parts_of_a_closing_example_are_named_by_their_digest(type_: str) -> None:
    parts = read(REGISTRY.latest(type_)).parts  # type: ignore[attr-defined]

    assert (parts.count, parts.digest) == (len(parts.ids), ids_digest(parts.ids))


@KINDS
def test_an_artifact_that_an_example_cites_is_named_alike_wherever_it_stands(kind: EventType) -> None:
    for ref in artifacts_in(read(kind)):
        assert ref.sha256 == hashlib.sha256(ref.name.encode()).hexdigest()
