"""Every event of the vocabulary in a sentence, and nothing hostile in it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ledger.audit.wording import MAX_QUOTED, MAX_SENTENCE, quoted, sentence
from ledger.events import REGISTRY
from ledger.events.examples import example

SHOWN = {"catalogue", "review", "defect", "difficulty", "attestation", "policy"}
TYPES = sorted({t.type for t in REGISTRY if t.family in SHOWN} | {"projection.promoted", "event.disregarded"})


def fields_of(type_: str) -> dict[str, Any]:
    return orjson.loads(example(type_, REGISTRY.latest(type_).version))


@pytest.mark.parametrize("type_", TYPES)
def test_each_type_that_may_stand_in_a_timeline_has_a_sentence_of_its_own(type_: str) -> None:
    said = sentence(type_, fields_of(type_))
    assert said != f"{type_} was recorded."
    assert "parts of it are gone" not in said
    assert (said[0].isupper(), "\n" in said, len(said) <= MAX_SENTENCE) == (True, False, True)


@pytest.mark.parametrize("type_", TYPES)
def test_a_payload_that_says_less_than_it_should_still_gives_a_sentence(type_: str) -> None:
    assert sentence(type_, {})
    assert sentence(type_, None) == f"{type_}: its payload is gone."
    for name in fields_of(type_):
        for damage in (None, 7, "marker", []):
            assert sentence(type_, {**fields_of(type_), name: damage})


def test_a_type_without_a_sentence_is_named() -> None:
    assert sentence("key.introduced", {"key": "k"}) == "key.introduced was recorded."


def hostile(value: Any) -> Any:
    """The same payload with every text turned against a terminal."""
    if isinstance(value, dict):
        return {name: hostile(item) for name, item in value.items()}
    if isinstance(value, list):
        return [hostile(item) for item in value]
    return f"\x1b]0;owned\x07{value}\u202e\n" + "x" * 5_000 if isinstance(value, str) else value


@pytest.mark.parametrize("type_", TYPES)
def test_recorded_text_is_made_harmless_and_cut_short(type_: str) -> None:
    said = sentence(type_, hostile(fields_of(type_)))
    assert not {"\x1b", "\x07", "\u202e", "\n"} & set(said)
    assert len(said) <= MAX_SENTENCE


def test_a_long_text_is_cut_and_the_cut_is_seen() -> None:
    assert quoted("a" * MAX_QUOTED) == "a" * MAX_QUOTED
    assert quoted("a" * (MAX_QUOTED + 1)) == "a" * (MAX_QUOTED - 1) + "…"
