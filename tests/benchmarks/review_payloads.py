"""What the parts of a review say, and the event that publishes them: see `payloads`."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.benchmarks.payloads import Payload, Source, digest, prose, subject_of, time_of

JUDGES: Final = 3
DIMENSIONS: Final = ("verifier", "instructions", "reference_answer", "environment", "contamination")
_PUBLISHER: Final = {"id": "organization:lab", "label": "The lab", "kind": "organization"}
_RUNNER: Final = {"id": "native-verifier", "label": "Native verifier", "kind": "unknown"}
_COVERAGE: Final = {
    "scope": "single_task",
    "sample_count": 1,
    "population_count": 700,
    "sampling_method": "reservoir",
    "seed": "42",
    "samples": [],
}


class Review(NamedTuple):
    """What all parts of one collection have in common."""

    collection: str
    source: Source
    number: int


def observation(review: Review, task: int) -> Payload:
    """One native run of the verifier."""
    head = _opening(review, task, "runtime", _RUNNER, tests_executed=True)
    return {
        **head,
        "summary": prose(review.number + task, 1),
        "verdict": "unrated",
        "metrics": [{"key": "native_verifier_score", "value": float(review.number % 2), "scale": None}],
        "findings": [],
        **_closing(review, f"tasks/{task:04d}/attempt.json"),
        "verification": {"status": "verified", "score": float(review.number % 2), "passed": review.number % 2 == 1},
        "attributes": {"execution_path": f"tasks/{task:04d}/execution-000", "route": "skyrl_gym"},
        "method": "runtime_execution",
    }


def judgment(review: Review, task: int, judge: int, verdict: str, severity: str | None) -> Payload:
    """One judge's opinion of one task."""
    person = {"id": f"model:example/judge-{judge}", "label": f"Judge {judge}", "kind": "model"}
    return {
        **_opening(review, task, f"judge/{judge}", person, tests_executed=False),
        "summary": prose(review.number + judge, 2),
        "verdict": verdict,
        "metrics": [],
        "findings": findings(review.number + task + judge, severity),
        **_closing(review, f"tasks/{task:04d}/judges/{judge}/parsed.json"),
        "attributes": {"judge_index": judge, "independent_session": True},
        "method": "model_judgment",
        "session": {
            "conversation_id": f"{review.collection}-{task}-{judge}",
            "prompt_sha256": digest(f"prompt {task}"),
        },
    }


def synthesis(review: Review, task: int | None, verdict: str, severity: str | None) -> Payload:
    """The opinions brought together: of a task, or of the source where there is none."""
    person = {"id": "model:example/coalescer", "label": "Coalescer", "kind": "model"}
    return {
        **_opening(review, task, "synthesis", person, tests_executed=False),
        "summary": prose(review.number, 2),
        "verdict": verdict,
        "metrics": [],
        "findings": findings(review.number, severity),
        **_closing(review, "coalescer/parsed.json"),
        "attributes": {},
        "method": "synthesis",
    }


def findings(number: int, severity: str | None) -> list[Payload]:
    """An issue where there is a severity; else an observation now and then."""
    if severity is None and number % 3:
        return []
    return [
        {
            "id": "finding/0",
            "dimension": DIMENSIONS[number % len(DIMENSIONS)],
            "text": prose(number, 1),
            "severity": severity,
            "kind": "observation" if severity is None else "issue",
        }
    ]


def fix_claim(review: Review, issue: str) -> Payload:
    """Attributes of a judgment that says that a fix was validated."""
    claim = {
        "issue_url": issue,
        "dataset_revision": review.source.data,
        "verifier_revision": review.source.verifier,
        "fix_validated": True,
    }
    return {"judge_index": 1, "independent_session": True, "resolved_verifier_issues": [claim]}


def tag(review: Review) -> Payload:
    return {
        "collection": review.collection,
        "assignment_id": f"{review.collection}/tag/0",
        "target": {"kind": "subject", "id": subject_of(review.source)},
        "namespace": "failure",
        "value": "numbers compared as text",
        "origin": "curated",
        "assigned_by": {"id": "curator:7", "label": "Curator", "kind": "human"},
        "assigned_at": time_of(review.number),
        "evidence_review_ids": [f"{subject_of(review.source)}/synthesis"],
        "note": prose(review.number, 1),
        "supersedes_assignment_id": None,
    }


def published(review: Review, parts: Payload) -> Payload:
    return {
        "collection": review.collection,
        "review": digest(review.collection),
        "source_id": review.source.id,
        "parts": parts,
        "document": {"name": "quality-reviews.json", "sha256": digest(review.collection), "size": 24_000},
        "schema_version": "0.3.0",
        "created_at": time_of(review.number),
        "dataset_revision": review.source.data,
        "verifier_revision": review.source.verifier,
        "verifier_revision_basis": "execution",
        "executed_commit": digest("executed")[:40],
        "reference_commit": None,
        "execution_provenance": {
            "marinskyrl_commit": digest("executed")[:40],
            "marinskyrl_dirty": False,
            "marinskyrl_python_tree_sha256": digest("tree"),
            "harbor_commit": None,
        },
    }


def superseded(collection: str, by: str) -> Payload:
    return {
        "review": digest(collection),
        "superseded_by": digest(by),
        "reason": "A later review covers the same tasks.",
    }


def _opening(review: Review, task: int | None, role: str, person: Payload, *, tests_executed: bool) -> Payload:
    """A review's fields up to its coverage."""
    subject = subject_of(review.source)
    nothing = {"task_id": None, "task_path": None, "row_index": None}
    this = nothing if task is None else {"task_id": f"t{task}", "task_path": f"tasks/{task:04d}", "row_index": task}
    where = subject if task is None else f"{subject}/task/t{task}"
    return {
        "collection": review.collection,
        "review_id": f"{where}/{role}",
        "subject": {
            "id": where,
            "level": "source" if task is None else "task",
            "repository": review.source.origin,
            "dataset_revision": review.source.data,
            "source_id": review.source.id,
            **this,
        },
        "reviewer": person,
        "publisher": _PUBLISHER,
        "reviewed_at": time_of(review.number),
        "imported_at": time_of(review.number + 1),
        "tests_executed": tests_executed,
        "coverage": _COVERAGE,
    }


def _closing(review: Review, path: str) -> Payload:
    """A review's fields from its evidence to what it supersedes."""
    trace = {"name": path, "sha256": digest(f"{review.collection} {path}"), "size": 18_000 + review.number % 1_000}
    evidence = {"artifact": trace, "retrieved_at": None, "locator": None, "artifact_revision": None}
    return {"evidence": [evidence], "derived_from_review_ids": [], "supersedes_review_id": None}
