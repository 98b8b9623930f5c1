"""Facts about runs and exports from a file: what a card or a page says of a run that nobody recorded as it went.

    {"about": "…", "facts": [{"type": "run.declared", "payload": {…}, "occurred_at": "…", "tags": []}, …]}

Each fact is one event of the training or export family, in the order of the file. Ids are made of what is said, so that
recording a file twice is recording it once. Nothing is added to what stands there: a fact that somebody claims says so
in its own basis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from ledger.client import faults
from ledger.client.drafts import Actor, Draft, Publication, draft
from ledger.core import clock, strictjson
from ledger.core.errors import InvalidInput, LedgerError, Problem
from ledger.core.ids import digest_id
from ledger.events import REGISTRY
from ledger.events.fields import AnyText, JsonObject, Name, Record, Timestamp
from ledger.events.streams import stream_of

FAMILIES: Final = frozenset({"training", "export"})
_REMEDY: Final = "Correct it and record it again; `ledger schema show TYPE` prints a type's schema and an example."


class Fact(Record):
    """One fact as the file has it."""

    type: Name
    payload: JsonObject
    occurred_at: Timestamp | None = None
    tags: list[Name] = []  # noqa: RUF012  # pydantic copies the defaults of a model


class FactsFile(Record):
    about: AnyText = ""
    facts: list[Fact]


def read_facts(path: Path) -> FactsFile:
    """A file of facts, checked whole before anything is sent.

    Raises:
        InvalidInput: reason INVALID_FILE, with every fault and its JSON pointer.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise faults.unreadable(path, error) from error
    try:
        strictjson.parse(data)
        found = FactsFile.model_validate_json(data)
    except LedgerError as error:
        problems = list(error.problems) or [Problem("", error.message)]
        raise faults.refused(path, "file of facts", problems, remedy=_REMEDY) from error
    except ValueError as error:
        problems = [Problem(strictjson.place(*e["loc"]), e["msg"]) for e in getattr(error, "errors", list)()]
        raise faults.refused(path, "file of facts", problems, remedy=_REMEDY) from error
    problems = [problem for index, fact in enumerate(found.facts) for problem in _problems(index, fact)]
    if problems or not found.facts:
        raise faults.refused(path, "file of facts", problems or [Problem("/facts", "is empty")], remedy=_REMEDY)
    return found


def plan_facts(facts: Iterable[Fact], *, by: Actor, tags: Sequence[str] = (), summary: str = "") -> Publication:
    """The facts as events, each taking effect by itself."""
    return Publication(parts=tuple(_draft(fact, by, tags) for fact in facts), summary=summary)


def _problems(index: int, fact: Fact) -> list[Problem]:
    place = strictjson.place("facts", index)
    families = {kind.family for kind in REGISTRY if kind.type == fact.type}
    if not families & FAMILIES:
        what = "a type that this release does not know" if not families else "no type of a run or an export"
        return [Problem(f"{place}/type", f"{fact.type} is {what}")]
    try:
        payload = _payload(fact)
    except InvalidInput as error:
        return [Problem(f"{place}/payload{p.place}", p.message) for p in error.problems or (Problem("", str(error)),)]
    stream = stream_of(payload)
    if stream.partition("/")[0] not in REGISTRY.latest(fact.type).streams:
        return [Problem(f"{place}/payload/subject/kind", f"{fact.type} has no place in {stream}")]
    return []


def _payload(fact: Fact) -> BaseModel:
    return REGISTRY.read(fact.type, REGISTRY.latest(fact.type).version, strictjson.dumps(fact.payload))


def _draft(fact: Fact, by: Actor, tags: Sequence[str]) -> Draft:
    payload = _payload(fact)
    stream = stream_of(payload)
    said = payload.model_dump_json(exclude_defaults=True)
    return draft(
        fact.type,
        stream,
        payload,
        by=by,
        id=digest_id("fact", stream, fact.type, said, fact.occurred_at),
        tags=[*tags, *fact.tags],
        occurred_at_us=None if fact.occurred_at is None else clock.from_text(fact.occurred_at),
    )
