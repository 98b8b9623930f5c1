"""The protocol v2 as the Atlas page has it, and what in a report breaks the protocol that it names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from ledger.events.fields import JsonObject
from ledger.events.policy import ProtocolDefined, ProtocolModel
from ledger.rules.atlas_page_1.environment import ProtocolModelTerms, Terms
from ledger.rules.atlas_page_1.model import Measured, Report

_SAMPLING: Final[JsonObject] = {
    "temperature": 0.7,
    "top_p": 0.95,
    "top_k": 20,
    "min_p": 0,
    "repetition_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "max_tokens": 16_384,
}

NATIVE_CONTROLS: Final = frozenset({"chat_template_kwargs", "reasoning_effort", "max_tokens"})
"""Compared only where a report records them: models keep their native reasoning controls, and the output limit is the
protocol's own."""

MAX_WRITTEN: Final = 80
"""Characters of a recorded value in a reason."""

V2: Final = ProtocolDefined(
    protocol="atlas-difficulty-v2-65k16k",
    context_window=65_536,
    max_input_tokens=49_152,
    max_output_tokens=16_384,
    models=[
        ProtocolModel(
            size="small",
            model="Qwen/Qwen3-Coder-30B-A3B-Instruct",
            reasoning="Non-thinking checkpoint",
            generation_parameters=_SAMPLING,
        ),
        ProtocolModel(
            size="large",
            model="Qwen/Qwen3.5-122B-A10B",
            reasoning="Thinking enabled",
            generation_parameters={**_SAMPLING, "chat_template_kwargs": {"enable_thinking": True}},
        ),
        ProtocolModel(
            size="hosted",
            model="zai-org/GLM-5.3",
            reasoning="Low reasoning effort",
            generation_parameters={**_SAMPLING, "reasoning_effort": "low"},
        ),
    ],
    note="Three fixed models on the same task sample. The output limit includes reasoning. Hosted runs on Together.",
)


def mismatches(report: Report, terms: Terms) -> list[str]:
    """Everything in which a report differs from the protocol that it names."""
    return [*_limits(report, terms), *_models(report, terms)]


def _limits(report: Report, terms: Terms) -> Iterator[str]:
    for name in ("context_window", "max_input_tokens", "max_output_tokens"):
        yield from _differs(name, getattr(report, name), getattr(terms, name))


def _models(report: Report, terms: Terms) -> Iterator[str]:
    asked = {model.size: model for model in terms.models}
    sizes = [model.size for model in report.models]
    yield from (f"the model {size} is missing" for size in asked if size not in sizes)
    yield from (f"the model {size} is there more than once" for size in asked if sizes.count(size) > 1)
    for model in report.models:
        if model.size in asked:
            yield from _model(model, asked[model.size])
        else:
            yield f"the protocol has no model {model.size}"


def _model(model: Measured, asked: ProtocolModelTerms) -> Iterator[str]:
    yield from _differs(f"{model.size} model", model.model, asked.model)
    recorded, wanted = model.generation_parameters, asked.generation_parameters
    for name in sorted(wanted.keys() | recorded.keys()):
        if name not in wanted:
            yield f"{model.size} {name} is {_written(recorded[name])}, which the protocol does not set"
        elif name in recorded or name not in NATIVE_CONTROLS:
            yield from _differs(f"{model.size} {name}", recorded.get(name), wanted[name])
    if model.solved > model.verified:
        yield f"{model.size} solved {model.solved} of {model.verified} verified"


def _differs(name: str, recorded: Any, wanted: Any) -> Iterator[str]:
    if recorded is None:
        yield f"{name} is not recorded (the protocol says {_written(wanted)})"
    elif not _same(recorded, wanted):
        yield f"{name} is {_written(recorded)} (the protocol says {_written(wanted)})"


def _written(value: Any) -> str:
    """The value as JSON, cut where it would drown the sentence."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text if len(text) <= MAX_WRITTEN else text[: MAX_WRITTEN - 1] + "…"


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: 0 is 0.0, true is not 1, within objects and lists as well."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
