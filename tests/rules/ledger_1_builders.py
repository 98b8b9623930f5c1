"""Builders for the corrected rules: a story under them, and the events that only they tell apart."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from ledger.events.attestations import (
    AttestationRecorded,
    ChangeValidation,
    ComparedDefinition,
    ComparedFile,
    ComparedObject,
    ComparedProgram,
    DatasetRevision,
    ExecutionImplementation,
    GradingApplicability,
    NativeRevision,
    Selection,
)
from ledger.events.catalogue import AliasMapped
from ledger.events.difficulty import DifficultyContextRecorded, DifficultyFollowupReported, ReportedModel
from ledger.events.fields import Person
from ledger.events.reviews import ExecutionProvenance, JudgeSession, TagAssigned, TagTarget
from ledger.rules.ledger_1 import RULES

from . import builders
from .builders import SOURCE, Story, fixed, judgment, ref, run, sha, synthesis, validation

DATA, OTHER_DATA = "1" * 40, "2" * 40
VERIFIER, OTHER_VERIFIER = "3" * 40, "4" * 40
DIGEST = "5" * 64
EXECUTED, REGISTRY = "a" * 40, "b" * 40
ON_PRESENT = {"dataset_revision": DATA, "verifier_revision": VERIFIER}
_MARA = Person(id="human:mara", label="Mara", kind="human")


class Told(Story):
    """A story under `ledger-1`, with revisions that name contents."""

    def __init__(self) -> None:
        super().__init__(RULES)

    def listed(self, collection: str = "c1", **fields: Any) -> Told:
        super().listed(collection, **{**ON_PRESENT, **fields})
        return self

    def revise(self, collection: str, **fields: Any) -> str:
        return super().revise(collection, **{**ON_PRESENT, **fields})

    def review(self, name: str, kind: Any = None, *, sample: bool = False, **fields: Any) -> str:
        return super().review(name, kind or good, sample=sample, **{**ON_PRESENT, **fields})

    def report(self, *models: ReportedModel, **fields: Any) -> str:
        return self.add(report(*models, **fields))

    def resolve(self, defect: str = "d1", review: str = "fix", *, principal: str | None = None, **fields: Any) -> str:
        validated = self.add(validation(defect, **{**ON_PRESENT, **fields}))
        self.review(review, fixed_here)
        return self.add(builders.resolved(validated, review, defect), principal=principal)

    def has(self, rule: str) -> bool:
        return any(r["rule"] == rule for r in self.shown()["reasons"])

    def quality(self) -> tuple[str, str | None]:
        """What is displayed, and the rating underneath."""
        shown = self.shown()
        return shown["quality"], shown["underlying_quality"]


def report(*models: ReportedModel, **fields: Any) -> Any:
    known = {"source_revision": DATA, "verifier_revision": VERIFIER}
    return builders.report(*models, **{**known, **fields})


def good(collection: str) -> list[BaseModel]:
    """A review that supports Good, judged on 1 October."""
    return judged_on(collection, "2026-10-01T00:00:00Z")


def judged_on(collection: str, at: str | None, verdict: str = "keep") -> list[BaseModel]:
    """A review whose judges looked at a moment, or at one that is unknown."""
    judges = [judgment(collection, verdict, reviewed_at=at) for _ in range(3)]
    return [run(collection, dataset_revision=DATA), *judges, synthesis(collection, verdict, dataset_revision=DATA)]


def fixed_here(collection: str) -> list[BaseModel]:
    """A review that says that the fix was validated on the present revisions."""
    claim = fixed(collection, **ON_PRESENT)[-1]
    return [*good(collection), claim]


def task(name: str) -> dict[str, Any]:
    """The subject of a part, as a task of its own."""
    return {"subject": _subject(name)}


def _subject(name: str) -> Any:
    return judgment("any").subject.model_copy(update={"id": f"source:1/task/{name}", "task_id": name})


def of_task(name: str, *parts: BaseModel) -> list[BaseModel]:
    """The parts, said of another task."""
    return [part.model_copy(update=task(name)) for part in parts]


def provenance(*, dirty: bool) -> ExecutionProvenance:
    return ExecutionProvenance(
        marinskyrl_commit=EXECUTED,
        marinskyrl_dirty=dirty,
        marinskyrl_python_tree_sha256=sha("tree"),
        harbor_commit=None,
    )


def session(conversation: str | None, prompt: str | None = None) -> JudgeSession:
    return JudgeSession(conversation_id=conversation, prompt_sha256=prompt and sha(prompt))


def attested(subject: str = "now", **claim: Any) -> AttestationRecorded:
    """An attestation of the one claim that is given."""
    (kind,) = claim
    return AttestationRecorded(
        source_id=SOURCE,
        kind=kind,
        subject=subject,
        evidence=[ref("attestation.json")],
        scope="What was compared, and nothing else.",
        attested_at=None,
        **claim,
    )


def same_data(
    subject: str = "data", *, equal: bool = True, selection: Selection | None = None, **revisions: str
) -> Any:
    known = {"executed_revision": DATA, "current_revision": OTHER_DATA, **revisions}
    files = [ComparedFile(path="train.parquet", executed_sha256=sha("f"), current_sha256=sha("f" if equal else "g"))]
    return attested(subject, dataset_revision=DatasetRevision(**known, files=files, selection=selection))


def selection(*, rows: tuple[int, int] = (7, 7), hashes: Any = ("r", "r"), selector: str = "split == 'train'") -> Any:
    one, other = (name and sha(name) for name in hashes)
    return Selection(
        executed_selector=selector,
        current_selector=selector,
        executed_rows=rows[0],
        current_rows=rows[1],
        executed_rows_sha256=one,
        current_rows_sha256=other,
    )


def same_code(subject: str = "code", *, pairs: Any = (("c" * 40, "c" * 40),), **fields: Any) -> AttestationRecorded:
    known = {"reviewed_commit": EXECUTED, "registry_commit": OTHER_VERIFIER, "dirty": False}
    objects = [
        ComparedObject(path=f"skyrl_gym/{n}", reviewed_object=a, registry_object=b) for n, (a, b) in enumerate(pairs)
    ]
    return attested(subject, native_revision=NativeRevision(**{**known, **fields}, objects=objects))


def same_grading(of: str, subject: str = "grading", *, pairs: Any = (("p", "p"),), **fields: Any) -> Any:
    known = {
        "review": sha(of),
        "source_revision": DATA,
        "captured_verifier_revision": VERIFIER,
        "grading_revision": DIGEST,
        "manifest_sha256": DIGEST,
    }
    programs = [
        ComparedProgram(route=f"route-{n}", executed_sha256=a and sha(a), manifest_sha256=b and sha(b))
        for n, (a, b) in enumerate(pairs)
    ]
    return attested(subject, grading_applicability=GradingApplicability(**{**known, **fields}, programs=programs))


def same_execution(subject: str = "script", *, equal: bool = True, validated: bool = False) -> AttestationRecorded:
    other = sha("d" if equal else "e")
    change = ChangeValidation(evidence=[ref("validation.log")], validated_by=_MARA, note="ran both")
    claim = ExecutionImplementation(
        script="make_review.py",
        original_sha256=sha("script"),
        executed_sha256=sha("another script"),
        roots=["load_tasks"],
        definitions=[ComparedDefinition(name="load_tasks", original_sha256=sha("d"), executed_sha256=other)],
        original_closure_sha256=sha("d"),
        executed_closure_sha256=other,
        encoding="ledger-python-definitions/1",
        validation=change if validated else None,
    )
    return attested(subject, execution_implementation=claim)


def alias(name: str = "svamp-mirror", *sources: str, status: str = "confirmed") -> AliasMapped:
    return AliasMapped(alias=name, source_ids=list(sources), status=status, applicability="exact_revision")


def tagged(collection: str | None, assignment: str, value: str, supersedes: str | None = None) -> TagAssigned:
    return TagAssigned(
        collection=collection,
        assignment_id=assignment,
        target=TagTarget(kind="subject", id="source:1"),
        namespace="license",
        value=value,
        origin="curated",
        assigned_by=_MARA,
        assigned_at="2026-10-01T00:00:00Z",
        evidence_review_ids=[],
        note=None,
        supersedes_assignment_id=supersedes,
    )


def followup(name: str = "f1", *, state: str = "complete", **fields: Any) -> DifficultyFollowupReported:
    known = {"kind": "generation_setting", "changed_parameter": "max_tokens: 16384 to 32768", "checkpoint_change": None}
    return DifficultyFollowupReported(
        atlas_id=SOURCE,
        followup_id=name,
        state=state,
        original_report=ref("difficulty.json"),
        report=None,
        outcome=builders.measured("small", 7, 32),
        **{**known, **fields},
    )


def context(**baseline: Any) -> DifficultyContextRecorded:
    known = {
        "solved": 2,
        "verified": 3,
        "configured_model_reviewers": [{"label": "Solver"}],
        "limitations": ["Three tasks."],
    }
    return DifficultyContextRecorded(
        atlas_id=SOURCE,
        context=ref("difficulty/context.json"),
        reviewer_rollout_baseline={**known, **baseline},
        historical_reference={"applicability": "historical", "limitations": "An earlier release."},
    )
