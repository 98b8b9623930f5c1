"""The facts of one stream at a size, folded on demand: for a dossier, or for the decision that rests on them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ledger.log.log import Log
from ledger.projections.disregards import disregarded_at
from ledger.projections.folding import Folder, Kept
from ledger.projections.rows import read_streams
from ledger.projections.subjects import SOURCES, projection_of
from ledger.rules import RuleSet


def stream_facts(
    log: Log,
    rules: RuleSet[Any, Any],
    stream: str,
    size: int,
    disregarded: Collection[int] | None = None,
    *,
    types: Collection[str] | None = None,
) -> tuple[Any, int]:
    """A stream's facts and its version among the first `size` events.

    What the rules refuse counts for nothing, as in the projection. A stream of no projection has no facts.

    Args:
        log: The log.
        rules: A rule set of the stream's projection.
        stream: The stream's whole name.
        size: The first so many events are known.
        disregarded: The positions that count for nothing; None: those that are disregarded at the size.
        types: Only events of these types count; None: of all.
    """
    projection = projection_of(stream)
    folder = Folder(rules, log.registry, projection or SOURCES)
    without = disregarded_at(log.store, log.registry, size) if disregarded is None else disregarded
    counted = folder.types if types is None else folder.types & set(types)
    kept, version = Kept(rules.initial_facts()), 0
    for row in read_streams(log.store.engine, stream, stream, size):
        version += 1
        if projection is not None and row[2] in counted and row[0] not in without:
            folder.fold(kept, row)
    return kept.facts, version
