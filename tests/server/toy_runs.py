"""A small rule set of runs: a checkpoint may be selected if it is there, an export verified if it was completed."""

from __future__ import annotations

from typing import Any

import orjson

from ledger.core.errors import Problem
from ledger.rules import RuleEvent, State, Touched

Facts = dict[str, Any]


class ToyRuns:
    """Knows the steps that are saved and not deleted, and what was completed and chosen."""

    id = "toy-runs"
    environment_types: frozenset[str] = frozenset()

    def initial_environment(self) -> None:
        return None

    def fold_environment(self, environment: None, event: RuleEvent) -> None:
        raise AssertionError(f"{event.type} is of no environment")

    def touched(self, environment: None, event: RuleEvent) -> Touched:
        return frozenset()

    def initial_facts(self) -> Facts:
        return {"saved": (), "selected": (), "completed": False}

    def fold(self, facts: Facts, event: RuleEvent) -> Facts:
        said = orjson.loads(event.body)
        match event.type:
            case "checkpoint.committed":
                return {**facts, "saved": (*facts["saved"], said["step"])}
            case "checkpoint.deleted":
                return {**facts, "saved": tuple(s for s in facts["saved"] if s != said["step"])}
            case "checkpoint.selected":
                return {**facts, "selected": (*facts["selected"], said["step"])}
            case "export.completed":
                return {**facts, "completed": True}
            case "anomaly.claimed":
                raise ValueError("a rule with a fault")
        return facts

    def show(self, source_id: str, facts: Facts, environment: None) -> State | None:
        return {"kind": source_id.partition("/")[0], **facts}

    def decide(self, event: RuleEvent, facts: Facts, environment: None) -> tuple[Problem, ...]:
        said = orjson.loads(event.body)
        if event.type == "export.verified":
            return (
                () if facts["completed"] else (Problem("/export_id", "nothing was completed that could be verified"),)
            )
        problems = []
        if said["step"] not in facts["saved"]:
            problems.append(Problem("/step", f"there is no checkpoint of step {said['step']}; saved: {facts['saved']}"))
        if facts["selected"]:
            problems.append(Problem("/purpose", f"step {facts['selected'][-1]} is selected already"))
        return tuple(problems)

    def encode_facts(self, facts: Facts) -> bytes:
        return orjson.dumps(facts)

    def decode_facts(self, data: bytes) -> Facts:
        facts: Facts = orjson.loads(data)
        return {**facts, "saved": tuple(facts["saved"]), "selected": tuple(facts["selected"])}

    def encode_environment(self, environment: None) -> bytes:
        return b""

    def decode_environment(self, data: bytes) -> None:
        return None
