"""Decisions: judged by the rules before they are recorded, whoever sends them.

A decision rests on streams. They are read first with their versions, folded, and judged; the versions go along as
guards, so that what was judged is what is recorded. When a guard has moved, the decision is made again. A known id is
not judged: the log answers it with its first receipt, for ever.

Drafts are judged in their order. Each may rest on the ones before it that will be recorded, and on no other: what is
refused or malformed teaches nothing.

The rules of sources are those in force where the streams were read, those of runs are the release's, and what was
disregarded before counts for nothing: a promotion or a disregard in between is a guard that moved. A request is judged
by the rules that its decisions need, and by no others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
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
from ledger.log.conditions import CollectionIs, Condition, NoMatch
from ledger.log.log import Log
from ledger.log.model import Filter
from ledger.log.preparing import SALT_BYTES, Preparer
from ledger.projections.disregards import DISREGARDED, against_disregard
from ledger.projections.facts import stream_facts
from ledger.projections.folding import Folder, Surroundings, plain, rule_event
from ledger.projections.generations import GenerationRow, Generations
from ledger.projections.promotions import PROMOTED
from ledger.projections.subjects import RUNS, SOURCES, projection_of
from ledger.rules import RuleEvent, RuleSet
from ledger.rules.sets import DEFAULT_RUN_RULES, RULE_SETS, RUN_RULE_SETS, rules_digest
from ledger.wire import log_pb2
from services.server.benches import Bench
from services.server.standing import MOVERS, Standing, Standings

_DOORS: Final[Mapping[str, str]] = {
    PROMOTED: "Promote with `ledger projection promote` (Projections.Promote): the server writes the event as it acts.",
}
RUN_RULES: Final = RUN_RULE_SETS[DEFAULT_RUN_RULES]
_NO_DOOR: Final = "The server itself writes what this release can carry out; an event without its effect would mislead."


@dataclass
class Decision:
    """What the rules say of a request, and what that rests on."""

    refused: dict[int, LedgerError] = field(default_factory=dict)
    guards: list[Condition] = field(default_factory=list)


class Decider:
    """Judges the decisions of a request against the log as it is.

    Args:
        log: The log.
        generations: From which the environment of sources is brought forward.
        artifacts: Where cited bytes must lie.
        rule_sets: Those of sources that this server carries; the log says which one judges.
        run_rules: What judges selections and verifications: nothing in the log says another.
    """

    def __init__(
        self,
        log: Log,
        generations: Generations,
        artifacts: ArtifactDirectory,
        rule_sets: Mapping[str, RuleSet[Any, Any]] = RULE_SETS,
        run_rules: RuleSet[Any, Any] = RUN_RULES,
    ) -> None:
        self.log = log
        self.rule_sets = rule_sets
        self.run_rules = run_rules
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
        """The rules that judge sources there.

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
        """The environment of sources there: a generation's, brought forward by reading on in the log."""
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

    def guarded(self, rules: RuleSet[Any, Any]) -> set[str]:
        """Events after which every decision under the rules is judged again, whatever stream they are in."""
        return {t.type for t in self.log.registry if t.type in rules.environment_types and "source" not in t.streams}


class _Judgement:
    """One request being judged: what it rests on, read at one size and folded as far as it is needed."""

    def __init__(self, decider: Decider, drafts: Mapping[int, log_pb2.Draft]) -> None:
        self._decider = decider
        self._drafts = drafts
        self._decision = Decision()
        self._size = decider.log.head().size
        self._standing = decider.standings.at(self._size)
        self._disregarded = set(self._standing.disregarded)
        self._benches: dict[str, Bench] = {}
        self._earlier: list[RuleEvent] = []
        self._preparer = Preparer(decider.log.origin, decider.log.registry)

    def made(self) -> Decision:
        seen: set[str] = set()
        for index, draft in self._drafts.items():
            if draft.id in seen:
                continue  # a twin: the log gives it the first one's receipt, or says that it is not the same
            seen.add(draft.id)
            try:
                event = self._event(draft, self._size + len(self._earlier))
            except LedgerError:
                continue  # malformed: the log says so, with its place
            kind = self._decider.log.registry.get(draft.type, draft.type_version or 1)
            problem = self._judge(kind, event)
            if problem is not None:
                self._decision.refused[index] = problem
                continue
            self._learn(event)
        self._guard()
        return self._decision

    def _guard(self) -> None:
        """Whatever would move a judgement makes the log ask for another."""
        types = set(MOVERS)
        for bench in self._benches.values():
            types |= self._decider.guarded(bench.rules)
            self._decision.guards += bench.rests_on()
        self._decision.guards.append(NoMatch(tuple(sorted(types)), (), self._size))

    def _judge(self, kind: EventType, event: RuleEvent) -> LedgerError | None:
        if kind.family == "ledger" and event.type != DISREGARDED:
            return _not_supported(event.type)
        if not kind.decision:
            return None
        try:
            problems = self._problems(event)
        except Refused as refusal:
            return refusal  # nobody can judge it here; the facts beside it are recorded all the same
        if problems:
            return _refused(event, problems)
        return self._missing_artifacts(event)

    def _problems(self, event: RuleEvent) -> list[Problem]:
        """Every reason against a decision."""
        if isinstance(event.payload, EventDisregarded):
            pos = event.payload.pos
            target = self._decider.log.store.event(pos) if pos < self._size else None
            return against_disregard(event.payload, target, already=pos in self._disregarded)
        against = self._bench(event.stream).against(event, self._earlier)
        return [*against, *_adoption_problems(event)]

    def _learn(self, event: RuleEvent) -> None:
        """What later drafts of the request may rest on."""
        if event.type == DISREGARDED:
            assert isinstance(event.payload, EventDisregarded)
            self._disregarded.add(event.payload.pos)
            for bench in self._benches.values():
                bench.refold(self._earlier)
        for bench in self._benches.values():
            bench.learn(event)
        self._earlier.append(event)

    def _bench(self, stream: str) -> Bench:
        """Who judges decisions on a stream: called when there is one, so that nobody waits for another's rules."""
        projection = projection_of(stream) or SOURCES
        if projection.name not in self._benches:
            self._benches[projection.name] = self._bench_of_runs() if projection is RUNS else self._bench_of_sources()
        return self._benches[projection.name]

    def _bench_of_sources(self) -> Bench:
        rules = self._decider.rules_at(self._standing)
        return Bench(
            rules,
            lambda: self._decider.environment_at(rules, self._standing, self._disregarded),
            lambda stream: self._facts(rules, stream),
            self._earlier,
        )

    def _bench_of_runs(self) -> Bench:
        rules = self._decider.run_rules
        return Bench(rules, rules.initial_environment, lambda stream: self._facts(rules, stream), self._earlier)

    def _facts(self, rules: RuleSet[Any, Any], stream: str) -> tuple[Any, int]:
        return stream_facts(self._decider.log, rules, stream, self._size, self._disregarded)

    def _event(self, draft: log_pb2.Draft, pos: int) -> RuleEvent:
        """The draft as the rules would see it once it is recorded.

        Raises:
            LedgerError: the log would not take it.
        """
        self._preparer.prepare(draft, salt=bytes(SALT_BYTES))
        registry, version, made = self._decider.log.registry, draft.type_version or 1, draft.producer
        return RuleEvent(
            pos=pos,
            id=draft.id,
            type=draft.type,
            stream=draft.stream,
            body=registry.newest_body(draft.type, version, draft.payload),
            read=partial(registry.read, draft.type, version, draft.payload),
            sample=SAMPLE_TAG in draft.tags,
            actor=draft.actor.id,
            producer=(made.id, made.epoch, made.seq) if draft.HasField("producer") else None,
        )

    def _missing_artifacts(self, event: RuleEvent) -> LedgerError | None:
        """A decision cites only what is stored, and so do the parts that it closes."""
        cited = [(event.id, ref) for ref in artifacts_in(event.payload)]
        if isinstance(event.payload, (ReviewPublished, CatalogueSynced)):
            cited += self._parts_citations(event.payload)
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

    def _parts_citations(self, closing: ReviewPublished | CatalogueSynced) -> list[tuple[str, ArtifactRef]]:
        """What the parts cite; and a guard that the stored parts stay the ones that were looked at."""
        match = Filter(tags=(COLLECTION_TAG + closing.collection,))
        stored = list(self._decider.log.store.read_all(0, self._size, match=match))
        ids = [s.id for s in stored]
        self._decision.guards.append(CollectionIs(closing.collection, len(ids), ids_digest(ids)))
        parts = [rule_event(s, self._decider.log.registry) for s in stored]
        parts += [e for e in self._earlier if getattr(e.payload, "collection", None) == closing.collection]
        return [(part.id, ref) for part in parts for ref in artifacts_in(part.payload)]

    def _is_stored(self, ref: ArtifactRef) -> bool:
        size = self._decider.artifacts.size(ref.sha256)
        return size is not None and ref.size in (None, size)


def _adoption_problems(event: RuleEvent) -> list[Problem]:
    """A rule set is adopted as this server has it, or not at all."""
    adopted = event.payload
    if not isinstance(adopted, RulesAdopted):
        return []
    if adopted.rules in RUN_RULE_SETS:
        return [Problem("/rules", f"{adopted.rules!r} folds runs, in every log: it is not adopted")]
    if adopted.rules not in RULE_SETS:
        return [Problem("/rules", f"this server has no rule set {adopted.rules!r}")]
    if adopted.digest != rules_digest(adopted.rules):
        return [Problem("/digest", "is not the digest of this server's rule set of that name")]
    return []


def _refused(event: RuleEvent, problems: list[Problem]) -> Refused:
    first, *others = problems
    more = f" (and {len(others)} more)" if others else ""
    return Refused(
        # With its place, which may be the subject of what is said.
        f"{event.type} on {event.stream} is refused: {first.place}: {first.message}{more}",
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
