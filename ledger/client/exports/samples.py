"""Whether tensors of one shape bear each other's names: seen from the first elements of each, beside the base's.

Reinforcement learning moves a weight by a small part of itself, so that a tensor is far nearer to its namesake in the
base than to any other of its shape. One that is at least four times nearer to another has that other's place. This is a
comparison of samples, and says so: two tensors whose beginnings are alike (norms that were never trained) cannot be
told apart by it, and neither can a model that moved far from its base.
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ledger.client.exports.headers import BITS
from ledger.client.exports.weights import Held, Weights

ELEMENTS: Final = 1_024
"""Of each tensor: 2 to 8 KiB."""
FEWEST: Final = 32
"""Elements; fewer may be alike by chance."""
MOST_TENSORS: Final = 2_000
"""Two reads each, which in an object store are requests."""
MOST_PAIRS: Final = 200_000
NEARER: Final = 4.0
MOVED: Final = 0.03
"""The part of its length by which a tensor must have moved to be looked at."""
_FORMATS: Final[Mapping[str, Literal["e", "f", "d"]]] = {"F16": "e", "F32": "f", "F64": "d"}

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Compared:
    """What the comparison found; `told` says what was compared, or why nothing was."""

    exchanged: tuple[tuple[str, str], ...]
    """A tensor, and the one of the base that it is."""
    told: str


@dataclass(frozen=True)
class _Sample:
    name: str
    here: Numbers
    there: Numbers

    @property
    def moved(self) -> float:
        return math.dist(self.here, self.there)

    @property
    def has_moved_far(self) -> bool:
        return self.moved > MOVED * math.hypot(*self.there)


def compare(
    weights: Weights,
    base: Weights,
    names: Iterable[str],
    *,
    most_tensors: int = MOST_TENSORS,
    most_pairs: int = MOST_PAIRS,
) -> Compared:
    """Compares the tensors of these names, which both have with the same shapes.

    Raises:
        LedgerError: if a place cannot be read.
    """
    groups = _groups(weights.by_name(), base.by_name(), names)
    count = sum(map(len, groups))
    if not count:
        return Compared((), "no two tensors have a shape in common whose names samples could tell apart")
    if count > most_tensors:
        return Compared((), f"names are not compared by samples: {count:,} tensors are too many")
    sampled = [[s for one in group if (s := _sampled(weights, base, *one)) is not None] for group in groups]
    if sum(sum(s.has_moved_far for s in group) * len(group) for group in sampled) > most_pairs:
        return Compared((), "names are not compared by samples: too many tensors moved far from the base")
    pairs = tuple(pair for group in sampled for pair in _exchanged(group))
    return Compared(pairs, f"names compared by samples of {sum(map(len, sampled)):,} tensors")


def _groups(
    ours: Mapping[str, Held], theirs: Mapping[str, Held], names: Iterable[str]
) -> list[list[tuple[str, Held, Held]]]:
    """Tensors of one shape, where there are several whose bytes are all there."""
    groups: dict[tuple[int, ...], list[tuple[str, Held, Held]]] = defaultdict(list)
    for name in names:
        here, there = ours[name], theirs[name]
        if here.tensor.parameters >= FEWEST and here.shard.is_whole and there.shard.is_whole:
            groups[here.tensor.shape].append((name, here, there))
    return [group for group in groups.values() if len(group) > 1]


def _sampled(weights: Weights, base: Weights, name: str, here: Held, there: Held) -> _Sample | None:
    """Both beginnings; None where one holds no numbers that have a distance."""
    mine = numbers(here.tensor.dtype, weights.bytes_of(here, _bytes(here)))
    other = numbers(there.tensor.dtype, base.bytes_of(there, _bytes(there)))
    if mine is None or other is None or not all(map(math.isfinite, mine + other)):
        return None
    return _Sample(name, mine, other)


def _bytes(held: Held) -> int:
    return ELEMENTS * BITS.get(held.tensor.dtype, 8) // 8


def numbers(dtype: str, data: bytes) -> Numbers | None:
    """The elements of a tensor's bytes as numbers; None for a type that is not one of the plain floating ones."""
    if dtype == "BF16":  # the upper half of a float of 32 bits
        data = b"".join(b"\0\0" + data[at : at + 2] for at in range(0, len(data) - 1, 2))
        dtype = "F32"
    if dtype not in _FORMATS:
        return None
    form = struct.Struct(f"<{_FORMATS[dtype]}")
    return tuple(value for (value,) in form.iter_unpack(data[: len(data) // form.size * form.size]))


def _exchanged(group: list[_Sample]) -> Iterable[tuple[str, str]]:
    for sample in group:
        if not sample.has_moved_far:
            continue
        others = [(math.dist(sample.here, other.there), other.name) for other in group if other is not sample]
        nearest, name = min(others, default=(math.inf, ""))
        if nearest * NEARER < sample.moved:
            yield sample.name, name
