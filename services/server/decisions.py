"""Decisions: judged by the rules before they are recorded, whoever sends them.

A decision rests on streams. They are read first with their versions, folded, and judged; the versions go along as
guards, so that what was judged is what is recorded. When a guard has moved, the decision is made again. A known id is
not judged: the log answers it with its first receipt, for ever.

Drafts are judged in their order. Each may rest on the ones before it that will be recorded, and on no other: what is
refused or malformed teaches nothing.

The rules are those in force where the streams were read, and what was disregarded before counts for nothing: a
promotion or a disregard in between is a guard that moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ledger.artifacts.directory import ArtifactDirectory
from ledger.core.errors import LedgerError, Problem, Refused
from ledger.core.ids import ids_digest
from ledger.core.text import is_header_text
from ledger.events import EventType
from ledger.events.administration import EventDisregarded
from ledger.events.catalogue import CatalogueSynced
from ledger.events.fields import COLLECTION_TAG, SAMPLE_TAG, ArtifactRef, artifacts_in
from ledger.events.policy import RulesAdopted
from ledger.events.reviews import ReviewPublished
from ledger.log import limits
from ledger.log.conditions import CollectionIs, Condition, NoMatch, StreamVersion
from ledger.log.log import Log
from ledger.log.model import Filter
from ledger.log.preparing import SALT_BYTES, Preparer
from ledger.projections.disregards import DISREGARDED, against_disregard
from ledger.projections.folding import Folder, Kept, Surroundings, plain, rule_event
from ledger.projections.generations import GenerationRow, Generations
from ledger.projections.promotions import PROMOTED
from ledger.rules import RuleEvent, RuleSet, source_of
from ledger.rules.sets import RULE_SETS, rules_digest
from ledger.wire import log_pb2
from services.server.standing import MOVERS, Standing, Standings

_DOORS: Final[Mapping[str, str]] = {
    PROMOTED: "Promote with `ledger projection promote` (Projections.Promote): the server writes the event as it acts.",
}
_NO_DOOR: Final = "The server itself writes what this release can carry out; an event without its effect would mislead."


@dataclass
class Decision:
    """What the rules say of a request, and what that rests on."""

    refused: dict[int, LedgerError] = field(default_factory=dict)
    guards: list[Condition] = field(default_factory=list)


class Decider:
    """Judges the decisions of a request against the log as it is."""

    def __init__(
        self,
        log: Log,
        generations: Generations,
        artifacts: ArtifactDirectory,
        rule_sets: Mapping[str, RuleSet[Any, Any]] = RULE_SETS,
    ) -> None:
        self.log = log
        self.rule_sets = rule_sets
        self._generations = generations
        self.artifacts = artifacts
        self.standings = Standings(log)
        self.judged = frozenset(t.type for t in log.registry if t.decision or t.family == "ledger")

    def concerns(self, drafts: Iterable[log_pb2.Draft]) -> bool:
        """Whether anything in the request must be judged."""
        return not self.judged.isdisjoint({draft.type for draft in drafts})

    def known(self, ids: Iterable[str]) -> set[str]:
        """Which of these ids are in the log; no id that a header could not hold is looked for."""
        return self.log.store.existing_ids([i for i in ids if is_header_text(i, limits.ID_BYTES)])

    def decide(self, drafts: Sequence[log_pb2.Draft]) -> Decision:
        """Judges a request; drafts that are in the log already, or are malformed, are left to the log."""
        known = self.known(d.id for d in drafts)
        new = {index: draft for index, draft in enumerate(drafts) if draft.id not in known}
        return _Judgement(self, new).made() if self.concerns(new.values()) else Decision()

    def rules_at(self, standing: Standing) -> RuleSet[Any, Any]:
        """The rules that judge there.

        Raises:
            Refused: reason RULES_CHANGED; another server has promoted rules that this one does not carry.
        """
        rules = standing.in_force.identity.rules if standing.in_force else ""
        if rules not in self.rule_sets:
            raise Refused(
                f"the rules in force are {rules!r}, and this server does not carry them: it cannot judge a decision",
                reason="RULES_CHANGED",
                remedy="Send the request to a server of the release that promoted them, or upgrade this one.",
                details={"rules": rules},
            )
        return self.rule_sets[rules]

    def environment_at(self, rules: RuleSet[Any, Any], standing: Standing, disregarded: Collection[int]) -> Any:
        """The environment there: a generation's, brought forward by reading on in the log."""
        folder = Folder(rules, self.log.registry)
        start, surroundings = 0, folder.initial()
        row = self._resumable(standing, disregarded)
        if row is not None:
            start, surroundings = row.size, Surroundings(rules.decode_environment(row.environment))
        match = Filter(types=tuple(sorted(rules.environment_types)))
        for stored in self.log.store.read_all(start, standing.size, match=match):
            if stored.pos not in disregarded:
                surroundings, _ = folder.surround(surroundings, plain(stored))
        return surroundings.environment

    def _resumable(self, standing: Standing, disregarded: Collection[int]) -> GenerationRow | None:
        """A generation of the rules in force, if nothing that it folded was disregarded after it."""
        row = self._generations.answering(standing.in_force.identity.rules_digest) if standing.in_force else None
        if row is None or row.size > standing.size or not self._generations.computes(row):
            return None
        before = {d.target for d in standing.disregards if d.pos < row.size}
        return row if all(pos in before or pos >= row.size for pos in disregarded) else None

    def facts_at(
        self, rules: RuleSet[Any, Any], stream: str, size: int, disregarded: Collection[int]
    ) -> tuple[Any, int]:
        """A stream's facts and version among the first `size` events; a stream of no source has no facts."""
        folder = Folder(rules, self.log.registry)
        kept, version = Kept(rules.initial_facts()), 0
        for stored in self.log.store.read_all(0, size, match=Filter(streams=(stream,))):
            version = stored.sv
            if source_of(stream) is not None and stored.pos not in disregarded:
                folder.fold(kept, plain(stored))
        return kept.facts, version

    def guarded(self, rules: RuleSet[Any, Any]) -> tuple[str, ...]:
        """Events after which every decision is judged again, whatever stream they are in."""
        of_environment = {
            t.type for t in self.log.registry if t.type in rules.environment_types and "source" not in t.streams
        }
        return tuple(sorted(of_environment.union(MOVERS)))


class _Judgement:
    """One request being judged: what it rests on, read at one size and folded as far as it is needed."""

    def __init__(self, decider: Decider, drafts: Mapping[int, log_pb2.Draft]) -> None:
        self._decider = decider
        self._drafts = drafts
        self._decision = Decision()
        self._size = decider.log.head().size
        self._standing = decider.standings.at(self._size)
        self._rules = decider.rules_at(self._standing)
        self._disregarded = set(self._standing.disregarded)
        self._environment = decider.environment_at(self._rules, self._standing, self._disregarded)
        self._facts: dict[str, Any] = {}
        self._preparer = Preparer(decider.log.origin, decider.log.registry)

    def made(self) -> Decision:
        earlier: list[RuleEvent] = []
        seen: set[str] = set()
        for index, draft in self._drafts.items():
            if draft.id in seen:
                continue  # a twin: the log gives it the first one's receipt, or says that it is not the same
            seen.add(draft.id)
            try:
                event = self._event(draft, self._size + len(earlier))
            except LedgerError:
                continue  # malformed: the log says so, with its place
            kind = self._decider.log.registry.get(draft.type, draft.type_version or 1)
            problem = self._judge(kind, event, earlier)
            if problem is not None:
                self._decision.refused[index] = problem
                continue
            self._learn(event, earlier)
            earlier.append(event)
        self._decision.guards.append(NoMatch(self._decider.guarded(self._rules), (), self._size))
        return self._decision

    def _judge(self, kind: EventType, event: RuleEvent, earlier: list[RuleEvent]) -> LedgerError | None:
        if kind.family == "ledger" and event.type != DISREGARDED:
            return _not_supported(event.type)
        if not kind.decision:
            return None
        problems = self._problems(event, earlier)
        if problems:
            return _refused(event, problems)
        return self._missing_artifacts(event, earlier)

    def _problems(self, event: RuleEvent, earlier: list[RuleEvent]) -> list[Problem]:
        """Every reason against a decision."""
        if isinstance(event.payload, EventDisregarded):
            pos = event.payload.pos
            target = self._decider.log.store.event(pos) if pos < self._size else None
            return against_disregard(event.payload, target, already=pos in self._disregarded)
        against = self._rules.decide(event, self._facts_of(event.stream, earlier), self._environment)
        return [*against, *_adoption_problems(event)]

    def _learn(self, event: RuleEvent, earlier: list[RuleEvent]) -> None:
        """What later drafts of the request may rest on."""
        if isinstance(event.payload, EventDisregarded):
            self._disregard(event.payload.pos, earlier)
            return
        if event.type in self._rules.environment_types:
            self._environment = _folded(self._rules.fold_environment, self._environment, event)
        if event.stream in self._facts:
            self._facts[event.stream] = _folded(self._rules.fold, self._facts[event.stream], event)

    def _disregard(self, pos: int, earlier: list[RuleEvent]) -> None:
        """Folds again without an event: streams when they are next asked for, the environment now."""
        self._disregarded.add(pos)
        self._facts.clear()
        self._environment = self._decider.environment_at(self._rules, self._standing, self._disregarded)
        for event in earlier:
            if event.type in self._rules.environment_types:
                self._environment = _folded(self._rules.fold_environment, self._environment, event)

    def _facts_of(self, stream: str, earlier: list[RuleEvent]) -> Any:
        """The facts of a stream, with the earlier events of the request; its version becomes a guard."""
        if stream not in self._facts:
            facts, version = self._decider.facts_at(self._rules, stream, self._size, self._disregarded)
            for event in earlier:
                if event.stream == stream and source_of(stream) is not None:
                    facts = _folded(self._rules.fold, facts, event)
            self._facts[stream] = facts
            self._decision.guards.append(StreamVersion(stream, version))
        return self._facts[stream]

    def _event(self, draft: log_pb2.Draft, pos: int) -> RuleEvent:
        """The draft as the rules would see it once it is recorded.

        Raises:
            LedgerError: the log would not take it.
        """
        self._preparer.prepare(draft, salt=bytes(SALT_BYTES))
        return RuleEvent(
            pos=pos,
            id=draft.id,
            type=draft.type,
            stream=draft.stream,
            payload=self._decider.log.registry.read(draft.type, draft.type_version or 1, draft.payload),
            sample=SAMPLE_TAG in draft.tags,
            actor=draft.actor.id,
        )

    def _missing_artifacts(self, event: RuleEvent, earlier: list[RuleEvent]) -> LedgerError | None:
        """A decision cites only what is stored, and so do the parts that it closes."""
        cited = [(event.id, ref) for ref in artifacts_in(event.payload)]
        if isinstance(event.payload, (ReviewPublished, CatalogueSynced)):
            cited += self._parts_citations(event.payload, earlier)
        missing = [(i, ref) for i, ref in cited if not self._is_stored(ref)]
        if not missing:
            return None
        return Refused(
            f"{len(missing)} cited artifacts are not stored; the first: {missing[0][1].sha256} ({missing[0][1].name})",
            reason="ARTIFACT_MISSING",
            remedy="Put the bytes first (Artifacts.Put, or `ledger artifact put`), then send the same request again.",
            problems=[
                Problem(f"event {i}", f"{ref.name} {ref.sha256}: not stored with this size") for i, ref in missing
            ],
        )

    def _parts_citations(
        self, closing: ReviewPublished | CatalogueSynced, earlier: list[RuleEvent]
    ) -> list[tuple[str, ArtifactRef]]:
        """What the parts cite; and a guard that the stored parts stay the ones that were looked at."""
        match = Filter(tags=(COLLECTION_TAG + closing.collection,))
        stored = list(self._decider.log.store.read_all(0, self._size, match=match))
        ids = [s.id for s in stored]
        self._decision.guards.append(CollectionIs(closing.collection, len(ids), ids_digest(ids)))
        parts = [rule_event(s, self._decider.log.registry) for s in stored]
        parts += [e for e in earlier if getattr(e.payload, "collection", None) == closing.collection]
        return [(part.id, ref) for part in parts for ref in artifacts_in(part.payload)]

    def _is_stored(self, ref: ArtifactRef) -> bool:
        size = self._decider.artifacts.size(ref.sha256)
        return size is not None and ref.size in (None, size)


def _folded(fold: Callable[[Any, RuleEvent], Any], before: Any, event: RuleEvent) -> Any:
    """What is known after an event; one that the rules cannot take counts for nothing, as in the projection."""
    try:
        return fold(before, event)
    except Exception:  # noqa: BLE001  # whatever a rule trips over must not bar every decision after it
        return before


def _adoption_problems(event: RuleEvent) -> list[Problem]:
    """A rule set is adopted as this server has it, or not at all."""
    adopted = event.payload
    if not isinstance(adopted, RulesAdopted):
        return []
    if adopted.rules not in RULE_SETS:
        return [Problem("/rules", f"this server has no rule set {adopted.rules!r}")]
    if adopted.digest != rules_digest(adopted.rules):
        return [Problem("/digest", "is not the digest of this server's rule set of that name")]
    return []


def _refused(event: RuleEvent, problems: list[Problem]) -> Refused:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Refused(
        f"{event.type} on {event.stream} is refused: {problems[0].message}{more}",
        remedy="Each problem names what must hold first; nothing was recorded.",
        details={"type": event.type, "stream": event.stream},
        problems=problems,
    )


def _not_supported(type_: str) -> Refused:
    return Refused(
        f"{type_} is not taken from callers",
        reason="NOT_SUPPORTED",
        remedy=_DOORS.get(type_, _NO_DOOR),
        details={"type": type_},
    )
