"""Stories under `atlas-code-1`, and the builders that only its tests need."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from ledger.core.errors import Problem
from ledger.events.attestations import AttestationRecorded, ComparedProgram, GradingApplicability
from ledger.events.catalogue import AuthoredReview
from ledger.events.difficulty import DifficultyFollowupReported, DifficultyReported, ReportedModel
from ledger.rules import RuleEvent, source_of
from ledger.rules.atlas_code_1 import RULES

from .builders import DATA, ISSUE, SOURCE, VERIFIER, Story, judgment, ref, report, run, sha, synthesis

V3 = "atlas-difficulty-v3-65k16k-qwen-recommended-nonthinking"
V4_JUDGE = "atlas-difficulty-v4-judge-verifier-nonthinking"
V4_CHECKLIST = "atlas-difficulty-v4-checklist-judge"
GRADING = sha("grading-1")
SUPPLEMENTAL_JUDGE = "model:Qwen/Qwen3-Coder-30B-A3B-Instruct"

BASE = {
    "temperature": 0.7,
    "top_p": 0.95,
    "top_k": 20,
    "min_p": 0,
    "repetition_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "max_tokens": 16384,
}
OUTCOMES = {
    "small": ("Qwen/Qwen3-Coder-30B-A3B-Instruct", 11, {}),
    "large": (
        "Qwen/Qwen3.5-122B-A10B",
        17,
        {"top_p": 0.8, "presence_penalty": 1.5, "chat_template_kwargs": {"enable_thinking": False}},
    ),
    "hosted": ("zai-org/GLM-5.3", 21, {"reasoning_effort": "low"}),
}

JUDGE = {
    "model": "Qwen/Qwen3.5-9B",
    "provider": "Together",
    "chat_template_kwargs": {"enable_thinking": False},
    "relay_script_sha256": sha("relay"),
}
CHECKLIST_JUDGE = {
    "model": "deepseek-ai/DeepSeek-V4-Pro-0813",
    "provider": "Together",
    "base_url": "https://api.together.xyz/v1",
    "api_key_reference": "${TOGETHER_API_KEY}",
    "chat_template_kwargs": {},
    "substitution_reason": "the verifier's own judge is not served any more",
}


class CodeStory(Story):
    """Events in log order, folded and shown by `atlas-code-1`."""

    def __init__(self) -> None:
        super().__init__()
        self.environment = RULES.initial_environment()

    def append(self, event: RuleEvent) -> str:
        self.events.append(event)
        self.size += 1
        self.environment = RULES.fold_environment(self.environment, event)
        if source := source_of(event.stream):
            self.facts[source] = RULES.fold(self.facts_of(source), event)
        return event.id

    def shown(self, source: str = SOURCE) -> dict[str, Any]:
        state = RULES.show(source, self.facts_of(source), self.environment)
        assert state is not None, f"{source} is not in the catalogue"
        return state

    def against(self, payload: BaseModel, *, stream: str = "") -> tuple[Problem, ...]:
        event = self.event(payload, stream=stream)
        return RULES.decide(event, self.facts_of(source_of(event.stream) or ""), self.environment)

    def facts_of(self, source: str) -> Any:
        return self.facts.get(source) or RULES.initial_facts()

    def difficulty(self) -> dict[str, Any]:
        return self.shown()["difficulty"]


def outcome(size: str, **fields: Any) -> ReportedModel:
    """A model's outcome under the protocols that the code accepts."""
    model, solved, own = OUTCOMES[size]
    known = {"model": model, "solved": solved, "verified": 32, "generation_parameters": {**BASE, **own}}
    return ReportedModel(size=size, **{**known, **fields})


def measured_by_code(**fields: Any) -> DifficultyReported:
    """A report that the code accepts as current, under v3 unless told otherwise."""
    return report(*map(outcome, OUTCOMES), **{"protocol": V3, **fields})


def followup(**fields: Any) -> DifficultyFollowupReported:
    known = {
        "atlas_id": SOURCE,
        "followup_id": "f1",
        "state": "complete",
        "kind": "generation_setting",
        "original_report": ref("difficulty.json"),
        "report": ref("follow-up.json"),
        "changed_parameter": "max_tokens",
        "checkpoint_change": None,
        "outcome": outcome("small", solved=7),
    }
    return DifficultyFollowupReported(**{**known, **fields})


def grading_proof(review: str = "r1", *, equal: bool = True, sha256: str | None = "", **fields: Any):
    """A grading applicability claim whose one program is equal, or not."""
    known = {
        "review": sha(review),
        "source_revision": DATA,
        "captured_verifier_revision": VERIFIER,
        "grading_revision": GRADING,
        "manifest_sha256": GRADING,
    }
    executed = sha("program") if sha256 == "" else sha256
    program = ComparedProgram(
        route="gym", executed_sha256=executed, manifest_sha256=executed if equal else sha("another")
    )
    return AttestationRecorded(
        source_id=SOURCE,
        kind="grading_applicability",
        subject=f"grading of {review}",
        evidence=[ref("grading-applicability.json")],
        scope="the grading program of one route",
        attested_at=None,
        grading_applicability=GradingApplicability(programs=[program], **{**known, **fields}),
    )


def authored(grade: str | None, data: str | None = DATA, verifier: str | None = VERIFIER) -> AuthoredReview:
    return AuthoredReview(grade=grade, dataset_revision=data, verifier_revision=verifier)


def supplemental(collection: str) -> list[BaseModel]:
    """The parts of a review whose judge is the supplemental model."""
    return [run(collection), judgment(collection, by=SUPPLEMENTAL_JUDGE), synthesis(collection)]


def claim(**changes: Any) -> dict[str, Any]:
    known = {"issue_url": ISSUE, "dataset_revision": DATA, "verifier_revision": VERIFIER, "fix_validated": True}
    return {**known, **changes}


def claiming(entry: dict[str, Any], *runs: BaseModel):
    """What makes the parts of a review that claims a fix, with these native runs."""

    def parts(collection: str) -> list[BaseModel]:
        says = judgment(collection, attributes={"resolved_verifier_issues": [entry]})
        return [*(runs or (run(collection),)), says, synthesis(collection)]

    return parts
