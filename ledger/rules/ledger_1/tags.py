"""Tags in effect: assigned, and neither retracted nor superseded since.

A tag of a review collection is assigned where the collection is published, and goes when that is superseded.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledger.rules.ledger_1.growing import items
from ledger.rules.ledger_1.model import Settled
from ledger.rules.ledger_1.review_model import Tag


def in_effect(settled: Settled) -> list[Tag]:
    """Every tag in effect, in log order."""
    assigned = list(_assigned(settled))
    if not assigned:
        return []
    ended: dict[str, int] = {}
    for pos, assignment in items(settled.retracted):
        ended[assignment] = max(pos, ended.get(assignment, pos))
    for tag in assigned:
        if tag.supersedes is not None:
            ended[tag.supersedes] = max(tag.pos, ended.get(tag.supersedes, tag.pos))
    return sorted((t for t in assigned if ended.get(t.assignment, -1) <= t.pos), key=lambda tag: tag.pos)


def _assigned(settled: Settled) -> Iterator[Tag]:
    yield from items(settled.tags)
    for review in settled.reviews:
        if review.superseded is None:
            yield from review.tags
