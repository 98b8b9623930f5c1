"""Stories of runs, told event by event to the rules of runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from google.protobuf import json_format

import ledger.events
from ledger.core.errors import Problem
from ledger.events import REGISTRY
from ledger.rules import RuleEvent
from ledger.rules.training_1 import RULES
from ledger.rules.training_1.model import Facts
from ledger.wire import runs_pb2

RUN, EXPORT, CAMPAIGN = "run/arm-0", "export/arm-0-15", "campaign/words"
CLAIMED = {"kind": "claimed", "url": "https://example.org/card"}
MESSAGES = {"run": runs_pb2.Run, "export": runs_pb2.Export, "campaign": runs_pb2.Campaign}
_ID_FIELD = {"run": "run_id", "export": "export_id", "campaign": "campaign_id"}
_EXAMPLES = Path(ledger.events.__file__).parent / "examples"


def sha(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def example(type_: str) -> dict[str, Any]:
    """The stored example of a type's payload."""
    return json.loads((_EXAMPLES / f"{type_}.v1.json").read_text("utf-8"))


def metrics(reward: Any = None, entropy: Any = None, **more: Any) -> dict[str, Any]:
    named = {"reward/avg_raw_reward": reward, "policy/policy_entropy": entropy}
    return {**{name: value for name, value in named.items() if value is not None}, **more}


class Story:
    """The events of one stream. Each is checked by the vocabulary before the rules see it."""

    def __init__(self, stream: str = RUN) -> None:
        self.stream = stream
        self.facts: Facts = RULES.initial_facts()
        self.events: list[RuleEvent] = []
        self._pos = 10

    def event(self, type_: str, payload: dict[str, Any], **header: Any) -> RuleEvent:
        """The event as it would be recorded next, in the name of its own stream."""
        kind, _, id_ = self.stream.partition("/")
        if type_ != "claim.recorded":
            payload = {**payload, _ID_FIELD[kind]: id_}
        return self.said_elsewhere(type_, payload, **header)

    def said_elsewhere(self, type_: str, payload: dict[str, Any], **header: Any) -> RuleEvent:
        """The event as it would be recorded next, whatever stream its payload names."""
        body = json.dumps(payload).encode()
        REGISTRY.read(type_, 1, body)
        self._pos += 1
        return RuleEvent(self._pos, f"e{self._pos}", type_, self.stream, body=body, **header)

    def add(self, type_: str, payload: dict[str, Any] | None = None, **header: Any) -> int:
        """Records one more event, and gives its position."""
        event = self.event(type_, payload or {}, **header)
        self.events.append(event)
        self.facts = RULES.fold(self.facts, event)
        return event.pos

    def against(self, type_: str, payload: dict[str, Any]) -> list[Problem]:
        """What stands against a decision now."""
        return list(RULES.decide(self.event(type_, payload), self.facts, RULES.initial_environment()))

    def shown(self) -> Any:
        return RULES.show(self.stream, self.facts, RULES.initial_environment())

    def dossier(self) -> dict[str, Any]:
        """The dossier, once its message has taken it field by field."""
        dossier = RULES.dossier(self.stream, self.facts)
        message = MESSAGES[self.stream.partition("/")[0]]()
        json_format.ParseDict(json.loads(json.dumps(dossier, allow_nan=False)), message)
        return dossier

    def codes(self) -> list[str]:
        return [flag["code"] for flag in self.dossier()["flags"]]

    # Runs

    def declared(self, **fields: Any) -> Story:
        source = {"atlas_id": "Example:words", "dataset_id": "example/words", "dataset_revision": "1" * 40}
        self.add("run.declared", {"rl_start": {"name": "example/base"}, "sources": [source], **fields})
        return self

    def attempt(self, number: int = 1, resumed: Any = None, **fields: Any) -> int:
        """A start; after the step given, or the checkpoint as it is named."""
        if isinstance(resumed, int):
            resumed = {"step": resumed}
        return self.add("attempt.started", {"attempt": number, "resumed_from": resumed, **fields})

    def step(self, step: int, reward: Any = None, entropy: Any = None, attempt: int = 1, **more: Any) -> int:
        logged = {"step": step, "metrics": metrics(reward, entropy, **more)}
        return self.add("steps.logged", {"attempt": attempt, "steps": [logged]})

    def series(self, rewards: Iterable[Any], attempt: int = 1, first: int = 1, entropies: Iterable[Any] = ()) -> Story:
        entropy = dict(enumerate(entropies))
        for place, reward in enumerate(rewards):
            self.step(first + place, reward, entropy.get(place), attempt)
        return self

    def saved(self, step: int, digest: str | None = None, attempt: int | None = 1, **fields: Any) -> int:
        return self.add(
            "checkpoint.committed",
            {"attempt": attempt, "step": step, "digest": sha(digest or f"{attempt}-{step}"), **fields},
        )

    def ended(self, ending: str = "completed", **fields: Any) -> int:
        return self.add("run.ended", {"ending": ending, **fields})


def selection(step: int = 15, rule: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"step": step, "purpose": "export", "rule": {"id": "trailing-ema", **(rule or {})}, **fields}
