"""What the engines share: streams of random numbers, which prompts are refused, and how a failure is told.

The stream of a completion hangs on the call's seed and its two indices alone. So a resumed run draws what the first
one drew, and neither the size of a batch nor its other members change a result.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Final

from services.trainer.rollouts.engines import Completion, Finish

SEED_BITS: Final = 62
"""Of a seed that is sent to an engine, which adds a sample's index to it: the sum fits 63 bits."""


def key_of(seed: int, prompt: int, sample: int | None = None) -> bytes:
    """What a stream is derived from."""
    return f"rollout/{seed}/{prompt}/{'*' if sample is None else sample}".encode()


def seed_of(seed: int, prompt: int) -> int:
    """For engines that keep generators of their own: a prompt's seed. Sample j has this seed + j."""
    return int.from_bytes(hashlib.sha256(key_of(seed, prompt)).digest()[:8]) >> (64 - SEED_BITS)


def refusal(
    prompt: Sequence[int], max_tokens: int, *, vocabulary: int | None = None, room: int | None = None
) -> str | None:
    """Why a prompt cannot be answered, as the type of an error; null: it can.

    An engine meets these in ways of its own, of which some lose the whole batch: so they are looked for before.
    """
    if not prompt:
        return "EmptyPrompt"
    if min(prompt) < 0 or (vocabulary is not None and max(prompt) >= vocabulary):
        return "UnknownToken"
    if room is not None and len(prompt) + max_tokens > room:
        return "PromptTooLong"
    return None


def answered(token_ids: Iterable[int], logprobs: Iterable[float] | None, finish: Finish) -> Completion:
    """A completion, or the error that it is: where a logit is no number, so is each token's probability."""
    told = None if logprobs is None else tuple(logprobs)
    if told is not None and not all(map(math.isfinite, told)):
        return failed("NotFiniteLogits", 1)[0]
    return Completion(tuple(token_ids), told, finish)


def failed(error: str, count: int) -> list[Completion]:
    """Completions that are not there, for one reason."""
    return [Completion(token_ids=(), logprobs=None, finish="error", error=error)] * count
