"""Reasons: which rule said what of which field, in the page's words, and the events that it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from ledger.rules.ledger_1.review_model import MAX_CITED, Counted

Reason = dict[str, Any]
"""The fields of `Reason` in audit.proto."""
Field = Literal["quality", "applicability", "review", "difficulty", "catalogue"]


def reason(
    field: Field, rule: str, text: str, events: Iterable[int | None] = (), parts: Sequence[Counted] = ()
) -> Reason:
    """A reason; unknown positions are left out, each is named once, in log order.

    The events that decide are all named. Of the parts of a review the first ones are, and the text says so when there
    are more: the publication, which is among the events, stands for all its parts.
    """
    deciding = {pos for pos in events if pos is not None}
    if not parts:
        return {"field": field, "rule": rule, "text": text, "events": sorted(deciding)}
    supporting = sorted({pos for counted in parts for pos in counted.first} - deciding)
    if len(supporting) > MAX_CITED or any(counted.count > MAX_CITED for counted in parts):
        text = f"{text} Cited are the first {MAX_CITED} of these parts."
    return {"field": field, "rule": rule, "text": text, "events": sorted({*deciding, *supporting[:MAX_CITED]})}


def plural(count: int, noun: str) -> str:
    """ "1 defect", "2 defects" """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(words: Iterable[str]) -> str:
    """ "a, b and c" """
    *rest, last = words
    return f"{', '.join(rest)} and {last}" if rest else last
