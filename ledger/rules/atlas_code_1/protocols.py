"""The protocols that the applet's code accepts, as constants, and in what a report breaks the one that it names.

What was defined or adopted in the log plays no part: the set of accepted protocols changes with a new rule set alone,
as it changed in the applet with a deployment. A report under a protocol that is not named here is historical, whatever
it holds; one that breaks its protocol is invalid.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ledger.rules.atlas_code_1.model import Measured, Report, Value

V3: Final = "atlas-difficulty-v3-65k16k-qwen-recommended-nonthinking"
V4_JUDGE: Final = "atlas-difficulty-v4-judge-verifier-nonthinking"
V4_CHECKLIST: Final = "atlas-difficulty-v4-checklist-judge"

LIMITS: Final[Mapping[str, int]] = {
    "context_window": 65_536,
    "max_input_tokens": 49_152,
    "max_output_tokens": 16_384,
}
MODELS: Final[Mapping[str, str]] = {
    "small": "Qwen/Qwen3-Coder-30B-A3B-Instruct",
    "large": "Qwen/Qwen3.5-122B-A10B",
    "hosted": "zai-org/GLM-5.3",
}

_BASE: Final[Mapping[str, Any]] = {
    "temperature": 0.7,
    "top_p": 0.95,
    "top_k": 20,
    "min_p": 0,
    "repetition_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "max_tokens": 16_384,
}
PARAMETERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "small": _BASE,
    "large": {**_BASE, "top_p": 0.8, "presence_penalty": 1.5},
    "hosted": {**_BASE, "reasoning_effort": "low"},
}
"""What a report must record of each model, and nothing beside it but the chat template of `large`."""

JUDGE_KEY: Final = "tasktrove_judge"
"""Where a report's verifier configuration has that of the judge which the source's own verifier asks."""


class Judge(Value, frozen=True):
    """How that judge must be configured."""

    required: dict[str, Any]
    not_empty: str
    sources: tuple[str, ...] = ()
    """The sources that the protocol is for; empty: every one."""


ACCEPTED: Final[Mapping[str, Judge | None]] = {
    V3: None,
    V4_JUDGE: Judge(
        required={
            "model": "Qwen/Qwen3.5-9B",
            "provider": "Together",
            "chat_template_kwargs": {"enable_thinking": False},
        },
        not_empty="relay_script_sha256",
    ),
    V4_CHECKLIST: Judge(
        required={
            "model": "deepseek-ai/DeepSeek-V4-Pro-0813",
            "provider": "Together",
            "base_url": "https://api.together.xyz/v1",
            "api_key_reference": "${TOGETHER_API_KEY}",
            "chat_template_kwargs": {},
        },
        not_empty="substitution_reason",
        sources=(
            "Task Trove:laion__nemotron-gym-safety-v3",
            "Task Trove:laion__stackexchange-overflow-sandboxes-verified-v2",
            "Task Trove:laion__stackexchange-unix-sandboxes-verified-v2",
        ),
    ),
}

MAX_WRITTEN: Final = 80
"""Characters of a recorded value in a reason."""


def mismatches(report: Report) -> list[str]:
    """Everything in which a report breaks the accepted protocol that it names."""
    judge = ACCEPTED[report.protocol]
    return [*(_judge(report, judge) if judge else ()), *_limits(report), *_models(report)]


def _judge(report: Report, judge: Judge) -> Iterator[str]:
    if judge.sources and report.atlas_id not in judge.sources:
        yield f"the protocol is not for {_written(report.atlas_id)}"
    recorded = report.verifier_configuration.get(JUDGE_KEY)
    if not isinstance(recorded, dict):
        yield f"verifier_configuration.{JUDGE_KEY} is not recorded"
        return
    for name, wanted in judge.required.items():
        yield from _differs(f"{JUDGE_KEY}.{name}", recorded.get(name), wanted)
    if not recorded.get(judge.not_empty):
        yield f"{JUDGE_KEY}.{judge.not_empty} is not recorded, or empty"


def _limits(report: Report) -> Iterator[str]:
    for name, wanted in LIMITS.items():
        yield from _differs(name, getattr(report, name), wanted)


def _models(report: Report) -> Iterator[str]:
    sizes = [model.size for model in report.models]
    yield from (f"the model {size} is missing" for size in MODELS if size not in sizes)
    yield from (f"the model {size} is there more than once" for size in MODELS if sizes.count(size) > 1)
    for model in report.models:
        if model.size in MODELS:
            yield from _model(model)
        else:
            yield f"the protocol has no model {_written(model.size)}"


def _model(model: Measured) -> Iterator[str]:
    yield from _differs(f"{model.size} model", model.model, MODELS[model.size])
    recorded, wanted = dict(model.generation_parameters), PARAMETERS[model.size]
    if model.size == "large":
        template = recorded.pop("chat_template_kwargs", None)
        thinking = template.get("enable_thinking") if isinstance(template, dict) else None
        yield from _differs("large chat_template_kwargs.enable_thinking", thinking, wanted=False)
    for name in sorted(wanted.keys() | recorded.keys()):
        if name not in wanted:
            yield f"{model.size} {name} is {_written(recorded[name])}, which the protocol does not set"
        else:
            yield from _differs(f"{model.size} {name}", recorded.get(name), wanted[name])


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
