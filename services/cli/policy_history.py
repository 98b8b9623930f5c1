"""What the policy streams say: which rule sets were adopted and put in force, which protocols stand.

Read from the log itself, so that the answer for a size is the same for ever; what was disregarded among the first so
many events counts for nothing. A protocol stands from its adoption until another one is adopted in its place; those
adopted beside it leave it standing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel

from ledger.client.reader import At, Reader, parse_at
from ledger.core.errors import NotFound
from ledger.events import REGISTRY
from ledger.events.administration import ProjectionPromoted
from ledger.events.policy import ProtocolAdopted, ProtocolDefined, RulesAdopted
from services.cli.catalogue_state import header_of
from services.cli.disregarded import disregarded

RULES_STREAM = "policy/rules"
PROTOCOLS_STREAM = "policy/protocols"
LEDGER_STREAM = "ledger"
SOURCES = "sources"


@dataclass(frozen=True)
class Moment:
    """An event: where it stands, its id, and when it was recorded."""

    pos: int
    event: str
    recorded_at: str

    def to_dict(self) -> dict[str, Any]:
        return {"pos": self.pos, "event": self.event, "recorded_at": self.recorded_at}


@dataclass(frozen=True)
class RuleSetHistory:
    """What was recorded of a rule set."""

    adopted: Moment | None = None
    """The first adoption; a later one changes nothing."""
    adopted_digest: str | None = None
    promoted: tuple[Moment, ...] = ()
    in_force: bool = False


@dataclass(frozen=True)
class ProtocolHistory:
    """What was recorded of a protocol."""

    name: str
    definition: ProtocolDefined | None = None
    defined: Moment | None = None
    adopted: Moment | None = None
    """The last adoption."""
    replaced: Moment | None = None
    """The adoption that took its place."""
    replaced_by: str | None = None

    @property
    def stands(self) -> bool:
        return self.adopted is not None and self.replaced is None


@dataclass
class RulesHistory:
    """All rule sets that the log speaks of, by id."""

    sets: dict[str, RuleSetHistory] = field(default_factory=dict)

    def of(self, rules: str) -> RuleSetHistory:
        return self.sets.get(rules, RuleSetHistory())


def size_at(reader: Reader, at: At) -> int:
    """How many events a moment comprises.

    Raises:
        NotFound: if the log has not come to that size.
        InvalidInput: if it is no moment.
    """
    present = reader.info().size
    if at is None:
        return present
    asked = parse_at(str(at))
    if asked.HasField("recorded_at_us"):
        return next(reader.sources(at=at, page_size=1)).coordinates.size
    if asked.size > present:
        raise NotFound(
            f"the log has size {present:,}, and has not come to {asked.size:,}",
            remedy="Ask for a size up to the log's own.",
        )
    return asked.size


def rules_history(reader: Reader, size: int) -> RulesHistory:
    """The rule sets as of a size."""
    history = RulesHistory()
    for moment, payload in _standing_payloads(reader, size, RULES_STREAM, ["rules.adopted"]):
        if isinstance(payload, RulesAdopted) and history.of(payload.rules).adopted is None:
            history.sets[payload.rules] = replace(
                history.of(payload.rules), adopted=moment, adopted_digest=payload.digest
            )
    for moment, payload in _payloads(reader, size, LEDGER_STREAM, ["projection.promoted"]):
        if isinstance(payload, ProjectionPromoted) and payload.projection == SOURCES:
            _put_in_force(history, payload.rules, moment)
    return history


def _put_in_force(history: RulesHistory, rules: str, moment: Moment) -> None:
    history.sets = {name: replace(known, in_force=False) for name, known in history.sets.items()}
    known = history.of(rules)
    history.sets[rules] = replace(known, promoted=(*known.promoted, moment), in_force=True)


def protocols_history(reader: Reader, size: int) -> dict[str, ProtocolHistory]:
    """The protocols as of a size, by id, in the order of their definitions."""
    found: dict[str, ProtocolHistory] = {}
    types = ["protocol.defined", "protocol.adopted"]
    for moment, payload in _standing_payloads(reader, size, PROTOCOLS_STREAM, types):
        if isinstance(payload, ProtocolDefined):
            known = found.get(payload.protocol, ProtocolHistory(payload.protocol))
            if known.defined is None:
                found[payload.protocol] = replace(known, definition=payload, defined=moment)
        elif isinstance(payload, ProtocolAdopted):
            _adopt(found, payload, moment)
    return found


def _adopt(found: dict[str, ProtocolHistory], payload: ProtocolAdopted, moment: Moment) -> None:
    replaced = found.get(payload.replaces or "")
    if replaced is not None and payload.replaces != payload.protocol:
        found[replaced.name] = replace(replaced, replaced=moment, replaced_by=payload.protocol)
    known = found.get(payload.protocol, ProtocolHistory(payload.protocol))
    found[payload.protocol] = replace(known, adopted=moment, replaced=None, replaced_by=None)


def standing(found: Iterable[ProtocolHistory]) -> list[str]:
    """The names of the protocols that are adopted and not replaced, the last adopted one last."""
    adopted = [(p.adopted.pos, p.name) for p in found if p.adopted is not None and p.stands]
    return [name for _, name in sorted(adopted)]


Said = tuple[Moment, BaseModel]


def _standing_payloads(reader: Reader, size: int, stream: str, types: list[str]) -> Iterator[Said]:
    """The payloads of a policy stream, less those that were disregarded."""
    gone = disregarded(reader, to_size=size) if size else {}
    for moment, payload in _payloads(reader, size, stream, types):
        if (moment.pos, moment.event) not in gone:
            yield moment, payload


def _payloads(reader: Reader, size: int, stream: str, types: list[str]) -> Iterator[Said]:
    """The payloads of the events among the first `size` that still have one."""
    if size == 0:
        return
    for event in reader.events(to_size=size, streams=[stream], types=types):
        if event.HasField("payload"):
            header = header_of(event)
            moment = Moment(event.pos, header["id"], header["recorded_at"])
            yield moment, REGISTRY.read(header["type"], header["tv"], event.payload)
