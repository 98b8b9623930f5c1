"""A model's weights as they lie at a place: the headers of its shards, and the bytes of a tensor on request.

What is wrong with a file is kept with its name, never raised: it is for the checks to tell. What is wrong with the
place itself (nobody answers, nothing is permitted) is raised, since it says nothing of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from ledger.client.exports.headers import Shard, Tensor, read_header
from ledger.client.exports.places import Place
from ledger.core.errors import InvalidInput, NotFound

SUFFIX: Final = ".safetensors"
_MAX_NAME: Final = 512
_RANGE: Final = 1 << 20


@dataclass(frozen=True)
class Held:
    """A tensor and the shard that holds it."""

    tensor: Tensor
    shard: Shard


@dataclass(frozen=True)
class Unread:
    """A file without a sound header, and why."""

    file: str
    why: str


@dataclass(frozen=True)
class Weights:
    """All shards at a place. A name that stands in two shards is held by the later one."""

    place: Place
    files: tuple[str, ...]
    shards: tuple[Shard, ...]
    unread: tuple[Unread, ...]

    def by_name(self) -> Mapping[str, Held]:
        return {t.name: Held(t, s) for s in self.shards for t in s.tensors}

    def bytes_of(self, held: Held, most: int) -> bytes:
        """The beginning of a tensor."""
        begin = held.shard.data_begin + held.tensor.begin
        return self.place.read(held.shard.name, begin, begin + min(most, held.tensor.size))

    def ranges_of(self, held: Held) -> Iterator[bytes]:
        """A whole tensor, a range at a time."""
        first = held.shard.data_begin + held.tensor.begin
        last = held.shard.data_begin + held.tensor.end
        for begin in range(first, last, _RANGE):
            yield self.place.read(held.shard.name, begin, min(begin + _RANGE, last))


def read_weights(place: Place, names: Iterable[str]) -> Weights:
    """Reads the header of every safetensors file among these names.

    Raises:
        LedgerError: if the place cannot be read.
    """
    files = tuple(name for name in names if name.endswith(SUFFIX))
    shards, unread = [], []
    for name in files:
        try:
            shards.append(read_header(name, place.size(name), partial(place.read, name)))
        except (InvalidInput, NotFound) as error:
            unread.append(Unread(name, error.message))
    return Weights(place, files, tuple(shards), tuple(unread))


def equal(one: tuple[Weights, Held], other: tuple[Weights, Held]) -> bool:
    """Whether two tensors have the same bytes; they are read as far as they are equal."""
    (weights, held), (others, theirs) = one, other
    if held.tensor.size != theirs.tensor.size:
        return False
    pairs = zip(weights.ranges_of(held), others.ranges_of(theirs), strict=True)
    return all(mine == yours for mine, yours in pairs)


def recordable(name: str) -> str:
    """A tensor's or file's name as an event can hold it: files allow bytes that are no text, and headers any text."""
    return name.encode("utf-8", "replace").decode().replace("\0", "?")[:_MAX_NAME] or "?"
