"""A rule set for runs that is small enough to be checked by eye, and histories of runs, exports and campaigns.

It uses what the fold offers: some events show nothing new, some the rules refuse, and from some states nothing can be
shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson
from hypothesis import strategies as st
from pydantic import BaseModel

from ledger.client.drafts import Draft
from ledger.core.errors import Problem
from ledger.events import REGISTRY
from ledger.events.administration import EventDisregarded
from ledger.events.checkpoints import ClaimRecorded, ClaimSubject
from ledger.events.exports import ExportCompleted, ExportedCheckpoint, ExportStarted
from ledger.events.runs import AnomalyClaimed, AttemptEnded, Basis, CampaignDeclared, RunDeclared
from ledger.events.steps import EngineSample, EngineSampled, LoggedStep, StepsLogged
from ledger.log.model import StoredEvent
from ledger.projections.folding import BROKEN_RULE, FAILED_RULE, rule_event
from ledger.rules import RuleEvent, RuleSet, State, Touched
from tests.rules import builders
from tests.server.doors import of

KEYS: Final = ("run/a", "run/b", "export/a", "campaign/a")


@dataclass(frozen=True)
class Facts:
    declared: str | None = None
    steps: int = 0
    reward: float | None = None
    samples: int = 0
    claims: tuple[int, ...] = ()
    ending: str | None = None


class ToyRuns:
    """Counts steps and samples, keeps the last reward, and remembers who claimed what."""

    id = "toy-runs-1"
    environment_types: frozenset[str] = frozenset()

    def initial_environment(self) -> None:
        return None

    def fold_environment(self, environment: None, event: RuleEvent) -> None:
        raise AssertionError(f"{event.type} is of no environment")

    def touched(self, environment: None, event: RuleEvent) -> Touched:
        raise AssertionError(f"{event.type} touches nobody")

    def initial_facts(self) -> Facts:
        return Facts()

    def fold(self, facts: Facts, event: RuleEvent) -> Facts:
        said = orjson.loads(event.body)
        match event.type:
            case "run.declared" | "export.started" | "campaign.declared":
                return replace(facts, declared=event.id)
            case "steps.logged":
                reward = said["steps"][-1]["metrics"]["reward"]
                return replace(facts, steps=facts.steps + len(said["steps"]), reward=reward)
            case "engine.sampled":
                return replace(facts, samples=facts.samples + 1)
            case "claim.recorded":
                return replace(facts, claims=(*facts.claims, event.pos))
            case "attempt.ended":
                return replace(facts, ending=said["ending"])
        raise ValueError(f"the toy does not take {event.type}")

    def show(self, key: str, facts: Facts, _environment: None) -> State | None:
        if facts.ending == "preempted":
            raise ValueError("the toy cannot show this")
        if facts.declared is None:
            return None
        return {
            "key": key,
            "declared": facts.declared,
            "steps": facts.steps,
            "reward": facts.reward,
            "ending": facts.ending,
            "reasons": [{"field": "claims", "rule": "toy", "text": "Claimed.", "events": list(facts.claims)}],
        }

    def shows_alike(self, before: Facts, after: Facts) -> bool:
        return before == replace(after, samples=before.samples)

    def shown_from(self, _key: str, facts: Facts, _environment: None) -> tuple[object, ...]:
        return facts.declared, facts.steps, facts.reward, facts.ending, facts.claims

    def decide(self, event: RuleEvent, facts: Facts, environment: None) -> tuple[Problem, ...]:
        return ()

    def encode_facts(self, facts: Facts) -> bytes:
        return orjson.dumps(facts)

    def decode_facts(self, data: bytes) -> Facts:
        said = orjson.loads(data)
        return Facts(**{**said, "claims": tuple(said["claims"])})

    def encode_environment(self, environment: None) -> bytes:
        return b"null"

    def decode_environment(self, data: bytes) -> None:
        return None


TOY: Final = ToyRuns()


@dataclass(frozen=True)
class RunStep:
    """What happens, in which stream, in which of a few variants; and whether the projector moves after it."""

    kind: str
    stream: int
    variant: int
    fold: bool = False
    restart: bool = False
    target: int = 0
    """Of a disregard: which earlier event it names."""


@dataclass
class RunTeller:
    """Turns steps into drafts. The log must have been empty before."""

    _ids: list[str] = field(default_factory=list)

    def tell(self, step: RunStep) -> list[Draft]:
        key = KEYS[step.stream]
        said, stream = self._said(step, key)
        draft = of(said, stream, id=f"r{len(self._ids)}", tags=["sample"] if step.variant == 3 else [])
        self._ids.append(draft.id)
        return [draft]

    def _said(self, step: RunStep, key: str) -> tuple[BaseModel, str]:
        kind, _, id_ = key.partition("/")
        if step.kind == "disregard":
            pos = step.target % max(len(self._ids), 1)
            named = self._ids[pos] if self._ids and step.variant != 3 else "another"
            return EventDisregarded(pos=pos, event=named, reason="It was wrong."), "ledger"
        if step.kind == "source":
            return builders.suspected(f"d{step.variant}"), f"source/{builders.SOURCE}"
        if step.kind == "claim":
            return claimed(kind, id_, f"Claim {step.variant}."), key
        if step.kind == "declare" or kind == "campaign":
            return declared(key), key
        return happened(step, key), key


def declared(key: str) -> BaseModel:
    kind, _, id_ = key.partition("/")
    if kind == "run":
        return RunDeclared(run_id=id_, rl_start=None, sources=[])
    if kind == "export":
        return ExportStarted(export_id=id_, checkpoint=ExportedCheckpoint(run_id="a", step=7), route="unknown")
    return CampaignDeclared(campaign_id=id_, purpose=None)


def happened(step: RunStep, key: str) -> BaseModel:
    kind, _, id_ = key.partition("/")
    if kind == "export":
        return ExportCompleted(export_id=id_)  # which the toy refuses
    if step.kind == "sample":
        look = EngineSample(engine="0", sampled_at="2026-07-01T00:00:00Z", metrics={"running": 1.0})
        return EngineSampled(run_id=id_, attempt=1, samples=[look])
    if step.kind == "refuse":
        return AnomalyClaimed(run_id=id_, kind="other", statement="It went wrong.")
    if step.kind == "end":
        ending = ("completed", "failed", "preempted", "unknown")[step.variant]
        return AttemptEnded.model_validate({"run_id": id_, "attempt": 1, "ending": ending})
    return logged(id_, step.variant)


def claimed(kind: str, id_: str, statement: str) -> ClaimRecorded:
    basis = Basis(kind="claimed")
    subject = ClaimSubject.model_validate({"kind": kind, "id": id_})
    return ClaimRecorded(subject=subject, topic="benchmark", statement=statement, basis=basis)


def logged(run_id: str, number: int) -> StepsLogged:
    steps = [LoggedStep(step=number, metrics={"reward": number / 4})]
    return StepsLogged(run_id=run_id, attempt=1, steps=steps)


RUN_KINDS: Final = ("declare", "declare", "step", "step", "step", "sample", "claim", "refuse", "end", "disregard",
                    "disregard", "source")  # fmt: skip

run_steps = st.builds(
    RunStep,
    kind=st.sampled_from(RUN_KINDS),
    stream=st.sampled_from((0, 0, 1, 2, 3)),
    variant=st.integers(0, 3),
    fold=st.booleans(),
    restart=st.sampled_from((False, False, True)),
    target=st.integers(0, 200),
)
run_histories = st.lists(run_steps, min_size=3, max_size=40)


def told_of_runs(log: Iterable[StoredEvent], rules: RuleSet[Any, Any]) -> list[dict[str, State]]:
    """What is shown after each event: the rules asked anew of all that counts each time. Failures are not told."""
    events: list[StoredEvent] = []
    gone: set[int] = set()
    shown: list[dict[str, State]] = [{}]
    for stored in log:
        events.append(stored)
        if stored.type == "event.disregarded":
            said = orjson.loads(stored.payload or b"")
            target = events[said["pos"]]
            if said["pos"] < stored.pos and target.id == said["event"] and not target.stream.startswith("ledger"):
                gone.add(said["pos"])
        shown.append(_shown(_facts(events, gone, rules), rules, before=shown[-1]))
    return shown


def _facts(events: Iterable[StoredEvent], gone: Collection[int], rules: RuleSet[Any, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for stored in events:
        if stored.stream.partition("/")[0] in {"run", "export", "campaign"}:
            before = facts.setdefault(stored.stream, rules.initial_facts())
            if stored.pos not in gone:
                with suppress(Exception):
                    facts[stored.stream] = rules.fold(before, rule_event(stored, REGISTRY))
    return facts


def _shown(facts: dict[str, Any], rules: RuleSet[Any, Any], before: dict[str, State]) -> dict[str, State]:
    shown = {}
    for key, known in facts.items():
        state = before.get(key)
        with suppress(Exception):
            state = rules.show(key, known, rules.initial_environment())
        if state is not None:
            shown[key] = state
    return shown


def without_failures(state: bytes) -> State:
    """A state as the rules gave it."""
    said: State = orjson.loads(state)
    reasons = [r for r in said.pop("reasons", ()) if r["rule"] not in {FAILED_RULE, BROKEN_RULE}]
    return {**said, "reasons": reasons} if reasons else said
