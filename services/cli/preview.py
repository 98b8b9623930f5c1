"""What a publication would make of a source, worked out here before anything is sent.

The rules in force are folded over what the ledger has and then over the planned events, with the same pure functions
that the ledger uses. What was disregarded, and what the rules cannot take, counts for nothing, as it does there. A
decision that the rules would refuse is refused here too, with every reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledger.client.drafts import Draft, Publication
from ledger.client.reader import Reader
from ledger.core.errors import InvalidInput, Problem, Refused
from ledger.events import REGISTRY
from ledger.events.administration import EventDisregarded
from ledger.events.fields import SAMPLE_TAG
from ledger.rules import RuleEvent, RuleSet
from ledger.rules.sets import RULE_SETS
from ledger.wire import log_pb2
from services.cli.catalogue_state import header_of


def preview(reader: Reader, publication: Publication, source_id: str) -> dict[str, Any] | None:
    """What would be shown of the source after the publication; None if it would not be.

    Raises:
        Refused: if the rules would refuse it.
        InvalidInput: if this installation does not carry the rules in force.
    """
    where = next(reader.sources(page_size=1, min_size=reader.info().size)).coordinates
    rules = RULE_SETS.get(where.rules)
    if rules is None:
        raise InvalidInput(
            f"this installation does not carry the rules {where.rules!r} that are in force",
            reason="NOT_SUPPORTED",
            remedy="Install the release that the ledger runs, or publish without --dry-run: refusals change nothing.",
        )
    folding = _Folding(rules, source_id)
    folding.read(reader, where.size)
    problems = folding.plan(publication.drafts, where.size)
    if problems:
        raise Refused(
            f"the rules in force would refuse it, for {len(problems)} reasons",
            remedy="Mend what is named. This was a dry run: nothing was appended.",
            problems=problems,
        )
    shown: dict[str, Any] | None = rules.show(source_id, folding.facts, folding.environment)
    return shown


class _Folding:
    """The facts of one source and the environment, brought forward event by event."""

    def __init__(self, rules: RuleSet[Any, Any], source_id: str) -> None:
        self._rules = rules
        self._stream = f"source/{source_id}"
        self._known: set[str] = set()
        self._disregarded: set[tuple[int, str]] = set()
        self.facts = rules.initial_facts()
        self.environment = rules.initial_environment()

    def read(self, reader: Reader, size: int) -> None:
        """Everything that the ledger has among its first `size` events."""
        for event in reader.events(to_size=size, streams=["ledger"], types=["event.disregarded"]):
            self._disregard(event)
        for event in reader.events(to_size=size, types=sorted(self._rules.environment_types)):
            met = self._met(event)
            if met is not None:
                self.environment = _folded(self._rules.fold_environment, self.environment, met)
        for event in reader.events(to_size=size, streams=[self._stream]):
            met = self._met(event)
            if met is not None:
                self.facts = _folded(self._rules.fold, self.facts, met)

    def plan(self, drafts: tuple[Draft, ...], size: int) -> list[Problem]:
        """Takes the events that the ledger does not have yet; gives the reasons against the decisions among them."""
        problems: list[Problem] = []
        new = [draft for draft in drafts if draft.id not in self._known]
        for offset, draft in enumerate(new):
            event = _planned(draft, size + offset)
            if REGISTRY.get(draft.type, draft.type_version).decision:
                against = self._rules.decide(event, self.facts, self.environment)
                problems += [Problem(f"{draft.type} {p.place}".rstrip(), p.message) for p in against]
            if event.type in self._rules.environment_types:
                self.environment = _folded(self._rules.fold_environment, self.environment, event)
            if event.stream == self._stream:
                self.facts = _folded(self._rules.fold, self.facts, event)
        return problems

    def _disregard(self, event: log_pb2.Event) -> None:
        """Notes the event that is to count for nothing; one that names itself or a later one changes nothing."""
        said = REGISTRY.read("event.disregarded", header_of(event)["tv"], event.payload)
        assert isinstance(said, EventDisregarded)
        if said.pos < event.pos:
            self._disregarded.add((said.pos, said.event))

    def _met(self, event: log_pb2.Event) -> RuleEvent | None:
        """A stored event as a rule sees it; None when it counts for nothing, or its payload is gone."""
        header = header_of(event)
        self._known.add(header["id"])
        if (event.pos, header["id"]) in self._disregarded or not event.HasField("payload"):
            return None
        return _recorded(event, header)


def _folded(fold: Callable[[Any, RuleEvent], Any], before: Any, event: RuleEvent) -> Any:
    """What is known after an event; the rules may not be able to take it."""
    try:
        return fold(before, event)
    except Exception:  # noqa: BLE001  # whatever a rule trips over counts for nothing, as it does in the ledger
        return before


def _recorded(event: log_pb2.Event, header: dict[str, Any]) -> RuleEvent:
    type_, version = header["type"], header["tv"]
    return RuleEvent(
        event.pos,
        header["id"],
        type_,
        header["stream"],
        body=REGISTRY.newest_body(type_, version, event.payload),
        read=lambda: REGISTRY.read(type_, version, event.payload),
        sample=SAMPLE_TAG in header["tags"],
        actor=header["actor"]["id"],
        principal=header["principal"],
    )


def _planned(draft: Draft, pos: int) -> RuleEvent:
    return RuleEvent(
        pos=pos,
        id=draft.id,
        type=draft.type,
        stream=draft.stream,
        payload=REGISTRY.read(draft.type, draft.type_version, draft.payload),
        sample=SAMPLE_TAG in draft.tags,
        actor=draft.actor.id,
    )
