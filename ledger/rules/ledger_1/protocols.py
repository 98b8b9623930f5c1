"""What in a report breaks the protocol that it names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from ledger.rules.ledger_1.environment import JudgeTerms, ModelTerms, Terms
from ledger.rules.ledger_1.model import Measured, Report
from ledger.rules.ledger_1.remembering import remembered

NATIVE_CONTROLS: Final = frozenset({"chat_template_kwargs", "reasoning_effort", "max_tokens"})
"""Compared only where a report records them: models keep their native reasoning controls, and the output limit is the
protocol's own."""

MAX_WRITTEN: Final = 80
"""Characters of a recorded value in a reason."""


def mismatches(source: str, report: Report, terms: Terms) -> list[str]:
    """Everything in which a report of a source differs from the protocol that it names."""
    return [*_for_others(source, terms), *_unlike(report, terms)]


@remembered
def _unlike(report: Report, terms: Terms) -> tuple[str, ...]:
    return (*_limits(report, terms), *_models(report, terms), *_judge(report, terms.judge))


def _for_others(source: str, terms: Terms) -> Iterator[str]:
    if terms.sources and source not in terms.sources:
        yield "the protocol is for other sources"


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


def _model(model: Measured, asked: ModelTerms) -> Iterator[str]:
    yield from _differs(f"{model.size} model", model.model, asked.model)
    yield from _parameters(model, asked)
    if model.solved > model.verified:
        yield f"{model.size} solved {model.solved} of {model.verified} verified"


def _parameters(model: Measured, asked: ModelTerms) -> Iterator[str]:
    recorded, wanted, required = model.generation_parameters, asked.generation_parameters, set(asked.must_record)
    for name in sorted(wanted.keys() | recorded.keys() | required):
        if name in wanted:
            if name in recorded or name in required or name not in NATIVE_CONTROLS:
                yield from _differs(f"{model.size} {name}", recorded.get(name), wanted[name])
        elif name not in recorded:
            yield f"{model.size} {name} is not recorded, which the protocol requires"
        elif name not in required:
            yield f"{model.size} {name} is {_written(recorded[name])}, which the protocol does not set"


def _judge(report: Report, judge: JudgeTerms | None) -> Iterator[str]:
    """The model that the source's own verifier asks must be the protocol's, configured as it says."""
    if judge is None:
        return
    configured = report.verifier_configuration.get(judge.key)
    if not isinstance(configured, dict):
        yield f"verifier_configuration records no {judge.key}"
        return
    for name in sorted(judge.required):
        yield from _differs(f"{judge.key} {name}", configured.get(name), judge.required[name])
    for name in judge.not_empty:
        if not configured.get(name):
            yield f"{judge.key} {name} is empty or not recorded"


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
