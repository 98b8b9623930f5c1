"""The text of a card: sentences and rows that name their events, and recorded text made inert.

- A sentence is a template and values. It names the positions of the events that it rests on, or it cannot be made. So
  does a row of a table.
- Recorded text is hostile. A name stands in a code span, prose between quotation marks with every character that
  Markdown, HTML or a formula could act on written as an entity; controls and overrides are replaced.
- What is not known is `Missing`: it is told once, in one place, and never guessed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from ledger.core.text import harmless

MAX_PROSE: Final = 2_000
"""Characters of recorded prose that a sentence quotes; the event holds the rest."""
_ACTIVE: Final = re.compile(r"[&<>*\[\]`\\#|~$!{}^@]|:(?=\S)|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
"""What Markdown, HTML, emoji names, autolinks and formulas begin or end with; within a word, `_` is a letter."""
_WWW: Final = re.compile(r"\bwww\.", re.IGNORECASE)
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)

How = Literal["said", "derived", "scoped", "shown", "made"]
"""`said`: the events say it, each with its basis. `derived`: the rules of runs make it of them. `scoped`: they make it
of all events of the run. `shown`: the rules of sources make it. `made`: of the card itself.
How each is known is written behind it by `layout`."""


@dataclass(frozen=True)
class Said:
    """A sentence, without its full stop, and the positions of the events behind it."""

    text: str
    cites: tuple[int, ...]
    how: How = "said"

    def __post_init__(self) -> None:
        if not self.cites:
            raise ValueError(f"a sentence without an event: {self.text[:80]}")


@dataclass(frozen=True)
class Table:
    """Rows, each of them a `Said` of `row`, under the names of their columns; the events get a column of their own."""

    columns: tuple[str, ...]
    rows: tuple[Said, ...]


@dataclass(frozen=True)
class Missing:
    """What a reader would look for and nobody recorded."""

    what: str


Part = Said | Table | Missing
Parts = Iterator[Part]


def said(text: str, *cites: int | None, how: How = "said") -> Said:
    """A sentence on the events that are known among these, each once, in log order."""
    return Said(text, tuple(sorted({pos for pos in cites if pos is not None})), how)


def derived(text: str, *cites: int | None) -> Said:
    """As `said`, of what the rules of runs make of the events."""
    return said(text, *cites, how="derived")


def shown(text: str, *cites: int | None) -> Said:
    """As `said`, of what the ledger shows of a source."""
    return said(text, *cites, how="shown")


def row(cells: Iterable[str], *cites: int | None, how: How = "said") -> Said:
    """A row of a table, with the events that it rests on."""
    texts = list(cells)
    if any("|" in text for text in texts):
        raise ValueError("a cell with a bar would be two: names go through `cell`")
    return said(" | ".join(texts), *cites, how=how)


def table(columns: Iterable[str], rows: Iterable[Said]) -> Parts:
    """A table, or nothing where it has no row."""
    if found := tuple(rows):
        yield Table(tuple(columns), found)


def known(message: Any, name: str) -> Any:
    """The value of an optional field, or None where it is absent or empty."""
    if message.HasField(name):
        value = getattr(message, name)
        return None if value == "" else value
    return None


def place(message: Any, *names: str) -> tuple[int, ...]:
    """The positions that these fields hold, of those that are there."""
    return tuple(getattr(message, name) for name in names if message.HasField(name))


def code(value: object) -> str:
    """A recorded name as a code span: nothing in it is read as markup."""
    text = harmless(str(value)).strip() or "(empty)"
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"{fence}{text}{fence}"


def cell(value: object) -> str:
    """A recorded name in a table, as `code`; with a bar, which ends a cell even in a code span, as prose."""
    return prose(str(value)) if "|" in str(value) else code(value)


def prose(value: str) -> str:
    """Recorded prose between quotation marks, inert and on one line."""
    text = " ".join(harmless(value).split())
    if len(text) > MAX_PROSE:
        text = text[:MAX_PROSE] + "…"
    return f"“{inert(text)}”"


def inert(text: str) -> str:
    """Text of which no character is markup."""
    text = _ACTIVE.sub(lambda found: f"&#{ord(found.group())};", text)
    return _WWW.sub(lambda found: f"{found.group()[:-1]}&#46;", text)


def number(value: float) -> str:
    """A number as a reader takes it: whole ones in groups of three, others with six digits; NaN by its name."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return f"{value:.6g}"


def listed(items: Iterable[str]) -> str:
    """a, b and c."""
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last


def counted(count: int, noun: str) -> str:
    """1 step, 2 steps."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def words(name: str) -> str:
    """`entropy_runaway` is "entropy runaway"."""
    return inert(harmless(name)).replace("&#95;", " ").replace("_", " ")


def is_repository(name: str) -> bool:
    """Whether it has the form of a repository on the Hub, so that a link to it is no more than that."""
    return _REPOSITORY.fullmatch(name) is not None


def scalar(value: str) -> str:
    """Recorded text in YAML: a string in ASCII between quotes, which no reader takes for anything else."""
    return json.dumps(" ".join(harmless(value).split()))
