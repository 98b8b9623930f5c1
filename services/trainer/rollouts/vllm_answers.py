"""Reading what a vLLM server answers to /v1/completions. What is not as it must be becomes an error, never a guess."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from services.trainer.rollouts.draws import answered, failed
from services.trainer.rollouts.engines import Completion

MALFORMED: Final = "MalformedAnswer"


def completions(said: Any, count: int) -> list[Completion]:
    """The completions of one prompt, in order of their index; each that is missing or unreadable is an error."""
    found = failed(MALFORMED, count)
    for choice in _choices(said):
        index = choice.get("index")
        if type(index) is int and 0 <= index < count:
            found[index] = _completion(choice)
    return found


def _completion(choice: dict[str, Any]) -> Completion:
    finish = choice.get("finish_reason")
    if finish not in ("stop", "length"):
        return failed(finish.title() if isinstance(finish, str) and finish.isidentifier() else MALFORMED, 1)[0]
    tokens = choice.get("token_ids")
    if not isinstance(tokens, list) or not all(type(t) is int for t in tokens):
        return failed(MALFORMED, 1)[0]
    if not isinstance(choice.get("logprobs"), dict):
        return answered(tokens, None, finish)
    logprobs = choice["logprobs"].get("token_logprobs")
    if not _numbers(logprobs) or len(logprobs) != len(tokens):
        return failed(MALFORMED, 1)[0]
    return answered(tokens, map(float, logprobs), finish)


def prompt_logprobs(said: Any, prompt: Sequence[int]) -> list[float] | None:
    """The log-probability of each of the prompt's tokens but the first; null if they are not all there."""
    for choice in _choices(said)[:1]:
        places = choice.get("prompt_logprobs")
        if isinstance(places, list) and len(places) == len(prompt):
            told = [p.get(str(t)) if isinstance(p, dict) else None for p, t in zip(places[1:], prompt[1:], strict=True)]
            found = [t.get("logprob") if isinstance(t, dict) else None for t in told]
            return [float(x) for x in found if x is not None] if _numbers(found) else None
    return None


def spread(plain: Any, divided: Any) -> tuple[float, float] | None:
    """How far apart two tokens lie in two answers' first distributions; null where too little is told."""
    one, other = _first_top(plain), _first_top(divided)
    common = sorted(one.keys() & other.keys(), key=one.__getitem__)
    if len(common) < 2 or one[common[-1]] - one[common[0]] < 0.01:  # the noise must be less
        return None
    return one[common[-1]] - one[common[0]], other[common[-1]] - other[common[0]]


def _first_top(said: Any) -> dict[str, float]:
    for choice in _choices(said)[:1]:
        logprobs = choice.get("logprobs")
        top = logprobs.get("top_logprobs") if isinstance(logprobs, dict) else None
        if isinstance(top, list) and top and isinstance(top[0], dict) and _numbers(list(top[0].values())):
            return {str(token): float(x) for token, x in top[0].items()}
    return {}


def _choices(said: Any) -> list[dict[str, Any]]:
    choices = said.get("choices") if isinstance(said, dict) else None
    return [c for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []


def _numbers(values: Any) -> bool:
    return isinstance(values, list) and all(type(x) in (int, float) for x in values)
