"""How a card is laid out: sentences as a list, rows as tables; behind each how it is known, and its marks.

Nothing stands behind what is plainly recorded, unless something else in the same section is claimed, imported,
inferred or observed. What is derived says from what, where that is not plainly recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ledger.client.cards.evidence import RECORDED, REDACTED, Cited
from ledger.client.cards.text import Part, Said, Table, code, listed

MAX_MARKS: Final = 8
"""Events that one sentence names; of more, the first ones and the last."""
Events = Mapping[int, Cited]

_SOURCES: Final = {
    "claimed": "claims",
    "imported": "imports",
    "inferred": "conclusions",
    "observed": "observations",
    REDACTED: "what was redacted since",
}
_MEANS: Final = {
    "claimed": "(claimed) is what somebody says, at the place that Events names, and how it stands to the record is "
    "derived",
    "imported": "(imported) was read from a file of its time",
    "inferred": "(inferred) was concluded by whoever recorded it",
    "observed": "(observed) was seen at a third party",
    REDACTED: "(redacted since) rests on an event whose content was taken out",
}


def sentences(parts: Iterable[Part]) -> Iterator[Said]:
    """Every sentence and every row."""
    for part in parts:
        if isinstance(part, Table):
            yield from part.rows
        elif isinstance(part, Said):
            yield part


def marked(cites: tuple[int, ...]) -> tuple[int, ...]:
    """The events that a sentence names."""
    return cites if len(cites) <= MAX_MARKS else (*cites[: MAX_MARKS - 1], cites[-1])


def section(parts: Iterable[Part], events: Events) -> list[str]:
    """The lines of a section, each sentence once; nothing where nothing is said."""
    spoken = [part for part in dict.fromkeys(parts) if isinstance(part, (Said, Table))]
    bases = {_basis(part, events) for part in sentences(spoken) if part.how == "said"}
    plain = bases <= {RECORDED}
    lines: list[str] = []
    for part in spoken:
        if isinstance(part, Said):
            lines.append(f"- {paragraph(part, events, plain=plain)}")
        else:
            lines += [*([""] if lines and lines[-1] else []), *_table(part, events, plain=plain), ""]
    return lines[:-1] if lines and not lines[-1] else lines


def paragraph(part: Said, events: Events, *, plain: bool = True) -> str:
    """A sentence, how it is known, and its marks; where all is plain, nothing is said of what is recorded."""
    return f"{part.text}{_behind(part, events, plain=plain)}. {_marks(part)}"


def legend(parts: Iterable[Part], events: Events, rules: str) -> str:
    """What the words behind sentences mean, of those that the card has."""
    spoken = list(sentences(parts))
    bases = {events[pos].basis for part in spoken for pos in marked(part.cites)}
    meanings = [
        "behind each sentence stands how it is known: nothing, or (recorded), where whoever recorded it saw it happen",
        *(meaning for word, meaning in _MEANS.items() if word in bases),
        f"(derived) follows from events by rules, of runs by {code(rules)}, of sources by those in force at that size",
    ]
    return "; ".join(meanings)


def _table(part: Table, events: Events, *, plain: bool) -> Iterator[str]:
    yield f"| {' | '.join(part.columns)} | Events |"
    yield f"|{'---|' * (len(part.columns) + 1)}"
    for row in part.rows:
        yield f"| {row.text} |{_behind(row, events, plain=plain)} {_marks(row)} |"


def _behind(part: Said, events: Events, *, plain: bool) -> str:
    """How it is known, in brackets."""
    if part.how == "made":
        return ""
    if part.how == "scoped":
        return " (derived)"
    if part.how == "said":
        basis = _basis(part, events)
        return "" if plain and basis == RECORDED else f" ({basis})"
    others = [_SOURCES[basis] for basis in _bases(part, events) if basis != RECORDED]
    return f" (derived from {listed(others)})" if others else " (derived)"


def _basis(part: Said, events: Events) -> str:
    return listed(_bases(part, events))


def _bases(part: Said, events: Events) -> list[str]:
    return list(dict.fromkeys(events[pos].basis for pos in marked(part.cites)))


def _marks(part: Said) -> str:
    """The marks of a sentence; an ellipsis stands for the events between that it rests on too."""
    marks = [f"[[e{pos}]](#e{pos})" for pos in marked(part.cites)]
    left_out = len(part.cites) - len(marks)
    if part.how == "scoped" and len(marks) > 1:
        return " … ".join(marks)
    if left_out:
        marks.insert(-1, f"… {left_out:,} more …")
    return " ".join(marks)
