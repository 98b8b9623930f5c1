"""What a model's configuration files say that moves how its weights are read and how it is scored.

Both are small JSON files that may be missing or damaged; what they do not say is None.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ledger.client.exports.headers import Tensor, unique
from ledger.client.exports.places import Place
from ledger.core.errors import InvalidInput, NotFound

CONFIG: Final = "config.json"
GENERATION: Final = "generation_config.json"
MAX_CONFIG: Final = 16 << 20
SAMPLING: Final[tuple[str, ...]] = (
    "do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff",
    "repetition_penalty", "no_repeat_ngram_size", "num_beams", "max_new_tokens", "max_length",
)  # fmt: skip
_BILLION: Final = 10**9


@dataclass(frozen=True)
class Generation:
    """generation_config.json. Engines take its values for requests that name none: a top_k in it moves scores."""

    sha256: str
    sampling: Mapping[str, float | bool | None]


@dataclass(frozen=True)
class Configuration:
    tied_weights: bool | None = None
    """Whether the output layer is the embedding matrix, which is then saved once."""
    experts: int | None = None
    experts_per_token: int | None = None
    generation: Generation | None = None


def read_configuration(place: Place, names: Iterable[str]) -> Configuration:
    """Reads the two files, where they are there.

    Raises:
        LedgerError: if the place cannot be read.
    """
    there = set(names)
    config = _object(_read(place, CONFIG)) if CONFIG in there else {}
    generation = _read(place, GENERATION) if GENERATION in there else None
    tied = _said(config, "tie_word_embeddings")
    return Configuration(
        tied_weights=tied if isinstance(tied, bool) else None,
        experts=_count(config, "num_experts", "num_local_experts", "n_routed_experts"),
        experts_per_token=_count(config, "num_experts_per_tok", "num_experts_per_token"),
        generation=None if generation is None else _generation(generation),
    )


def size_label(tensors: Iterable[Tensor], configuration: Configuration) -> str:
    """The size as models are named by it, from their weights: 8B, 135M, 30B-A3B. Whole billions are cut off from 2 on,
    as in the names of models: one of 30.5 billion is a 30B. `A` counts what one token passes through."""
    total = experts = 0
    for tensor in tensors:
        total += tensor.parameters
        if ".experts." in tensor.name:
            experts += tensor.parameters
    used, all_ = configuration.experts_per_token, configuration.experts
    if not experts or not used or not all_ or used >= all_:
        return _rounded(total)
    return f"{_rounded(total)}-A{_rounded(total - experts + experts * used // all_)}"


def _rounded(parameters: int) -> str:
    if parameters >= 2 * _BILLION:
        return f"{parameters // _BILLION}B"
    if parameters >= _BILLION:
        return f"{parameters // (_BILLION // 10) / 10:.1f}B"
    if parameters >= 1_000_000:
        return f"{round(parameters / 1_000_000)}M"
    return f"{round(parameters / 1_000)}K" if parameters >= 1_000 else str(parameters)


def _read(place: Place, name: str) -> bytes:
    try:
        return place.read(name, 0, MAX_CONFIG)
    except (InvalidInput, NotFound):
        return b""


def _object(data: bytes) -> dict[str, Any]:
    try:
        said = json.loads(data.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _said(config: Mapping[str, Any], name: str) -> Any:
    """A value of the model's, or, where a model of several parts has none, of its text part's."""
    text = config.get("text_config")
    return config.get(name, text.get(name) if isinstance(text, dict) else None)


def _count(config: Mapping[str, Any], *names: str) -> int | None:
    found = (_said(config, name) for name in names)
    return next((v for v in found if type(v) is int and v > 0), None)


def _generation(data: bytes) -> Generation:
    said = _object(data)
    sampling = {name: said[name] for name in SAMPLING if name in said and _plain(said[name])}
    return Generation(hashlib.sha256(data).hexdigest(), sampling)


def _plain(value: Any) -> bool:
    return value is None or (isinstance(value, (bool, int, float)) and math.isfinite(value))
