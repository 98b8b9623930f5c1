"""What a projection is about: which streams have a key in it, and which events its facts are made of.

Two projections lie in the same tables, and each generation is of one of them:

  - `sources`: a key is a source's id, its stream is `source/<id>`;
  - `runs`: a key is a whole stream's name, since an id may be a run's, an export's and a campaign's at once.

A rule set belongs to one projection. What is here is part of the fold's identity: it decides which rows there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ledger.rules import source_of


@dataclass(frozen=True)
class Projection:
    """One kind of derived state."""

    name: str
    families: frozenset[str]
    """What a key's own stream holds, and its facts are made of."""
    kinds: tuple[str, ...]
    """The kinds of its streams, in the order of their bytes."""
    key_of: Callable[[str], str | None]
    """The key that a stream belongs to, or None."""
    stream_of: Callable[[str], str]
    """The stream of a key."""
    origin_of: Callable[[str, Mapping[str, Any]], str]
    """What a key that is shown is listed under, of the key and its state."""
    doubt: str
    """The field of a state under which it says what the rules could not do."""

    def range_of(self, kind: str) -> tuple[str, str]:
        """Two names between which all streams of a kind lie, and no others: 0 follows the slash."""
        return f"{kind}/", f"{kind}0"


def _run_key(stream: str) -> str | None:
    kind, _, rest = stream.partition("/")
    return stream if rest and kind in _RUN_KINDS else None


_RUN_KINDS: Final = ("campaign", "export", "run")

SOURCES: Final = Projection(
    name="sources",
    families=frozenset({"catalogue", "review", "defect", "difficulty", "attestation"}),
    kinds=("source",),
    key_of=source_of,
    stream_of=lambda key: f"source/{key}",
    origin_of=lambda _key, state: str(state["origin"]),
    doubt="quality",
)

RUNS: Final = Projection(
    name="runs",
    families=frozenset({"training", "export"}),
    kinds=_RUN_KINDS,
    key_of=_run_key,
    stream_of=lambda key: key,
    origin_of=lambda key, _state: key.partition("/")[0],
    doubt="facts",
)

PROJECTIONS: Final[Mapping[str, Projection]] = MappingProxyType({p.name: p for p in (SOURCES, RUNS)})


def projection_of(stream: str) -> Projection | None:
    """The projection in which a stream has a key."""
    return next((p for p in PROJECTIONS.values() if p.key_of(stream) is not None), None)
