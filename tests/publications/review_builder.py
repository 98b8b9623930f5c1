"""Makes a review run's directory of format 0.3.0, sound in every part, with real evidence files.

    build_review(tmp_path)                                           # three tasks, all well: Good
    build_review(tmp_path, judge_verdicts=("reject", "reject", "keep"), verdict="reject", findings=[issue("high")])
    build_review(tmp_path, verification=("verified", "error"), tasks=2)

For n tasks it writes 5n+1 reviews: a native run, three judges and a synthesis a task, and the source's synthesis. Equal
arguments give equal bytes. `edit_review` changes the document of a run, to make a bad one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SVAMP = "MarinSkyRL:svamp"
SVAMP_REPOSITORY = "ChilleD/SVAMP"
SVAMP_DATASET = "5e0bf1e5e7c0e9c4bc39180d224f41f3f801b7ef"
EXECUTED = "e44c4bfcb62c489286a1264094e6d9c883aaf0d2"
INSPECTED = "88660ec860e483213c2a1c5e03d7f1c483e93ab2"
SUPPLEMENTAL_MODEL = "model:Qwen/Qwen3-Coder-30B-A3B-Instruct"

PUBLISHER = {"id": "review-tooling", "label": "Review tooling", "kind": "organization"}
VERIFIER = {"id": "native-verifier", "label": "Native verifier", "kind": "unknown"}


def issue(severity: str | None, text: str = "The grader accepts a wrong answer.") -> dict[str, Any]:
    """A finding of kind issue, without an id: the builder gives one."""
    return {"dimension": "grading", "text": text, "severity": severity, "kind": "issue"}


def observation(text: str = "The statement is clear.", severity: str | None = None) -> dict[str, Any]:
    return {"dimension": "clarity", "text": text, "severity": severity, "kind": "observation"}


def resolved_issue(
    issue_url: str, dataset_revision: str | None, verifier_revision: str | None, *, fix_validated: bool = True
) -> dict[str, Any]:
    """An entry of attributes.resolved_verifier_issues."""
    return {
        "issue_url": issue_url,
        "dataset_revision": dataset_revision,
        "verifier_revision": verifier_revision,
        "fix_validated": fix_validated,
    }


def source_subject_id(repository: str, dataset_revision: str | None, source_id: str, snapshot: str = "") -> str:
    """The subject id that the review tooling derives; without a revision the snapshot stands for it."""
    pinned = dataset_revision if dataset_revision is not None else f"snapshot:{snapshot}"
    text = json.dumps([repository, pinned, source_id], ensure_ascii=False)
    return "source:" + hashlib.sha256(text.encode()).hexdigest()[:20]


def build_review(
    directory: Path,
    *,
    source_id: str = SVAMP,
    repository: str = SVAMP_REPOSITORY,
    dataset_revision: str | None = SVAMP_DATASET,
    tasks: int = 3,
    verdict: str = "keep",
    judge_verdicts: Sequence[str] = ("keep", "keep", "keep"),
    judge_findings: Iterable[dict[str, Any]] = (),
    findings: Iterable[dict[str, Any]] = (),
    verification: str | Sequence[str] = "verified",
    score: float = 1.0,
    judge: str = "model:sample/judge",
    supplemental: bool = False,
    resolved_verifier_issues: Iterable[dict[str, Any]] = (),
    review_pool_role: str | None = None,
    executed_commit: str = EXECUTED,
    inspected_commit: str | None = None,
    day: str = "2026-10-02",
    tags: Iterable[tuple[str, str]] = (),
    everybody: Mapping[str, str] | None = None,
    summary: str = "Checked for a test.",
) -> Path:
    """Writes the run and gives its directory.

    Args:
        verdict: Of the source's synthesis; each task's synthesis says the same.
        judge_verdicts: Of the three judges, alike for each task.
        judge_findings: Of the first judge of the first task.
        findings: Of the source's synthesis.
        verification: The native status, one for all tasks or one each.
        supplemental: The judges are the small model whose reviews give no rating.
        day: When everything happened; the judges judge at noon.
        everybody: One actor in the place of all reviewers and publishers.
        summary: Of the source's synthesis; runs that differ in nothing else differ here.
    """
    statuses = [verification] * tasks if isinstance(verification, str) else list(verification)
    if len(statuses) != tasks:
        raise ValueError(f"{tasks} tasks have {tasks} native results, not {len(statuses)}")
    run = _Run(
        directory=directory,
        source=source_subject_id(repository, dataset_revision, source_id, snapshot="0" * 64),
        shared={"repository": repository, "dataset_revision": dataset_revision, "source_id": source_id},
        day=day,
        judge=SUPPLEMENTAL_MODEL if supplemental else judge,
        everybody=everybody,
    )
    reviews: list[dict[str, Any]] = []
    for task, status in enumerate(statuses):
        seen = judge_findings if task == 0 else ()
        reviews += run.task_reviews(task, (status, score), judge_verdicts, list(seen), verdict)
    attributes: dict[str, Any] = {}
    if resolved_verifier_issues := list(resolved_verifier_issues):
        attributes["resolved_verifier_issues"] = resolved_verifier_issues
    if review_pool_role is not None:
        attributes["review_pool_role"] = review_pool_role
    if inspected_commit is not None:
        attributes["inspected_marinskyrl_commit"] = inspected_commit
    reviews.append(run.source_synthesis(reviews, verdict, list(findings), attributes, summary))
    document = {
        "schema_version": "0.3.0",
        "created_at": f"{day}T13:00:00+00:00",
        "subjects": [run.source_subject(), *(run.task_subject(task) for task in range(tasks))],
        "reviews": reviews,
        "tag_assignments": [run.tag(i, namespace, value) for i, (namespace, value) in enumerate(tags)],
        "source_mappings": [],
        "execution_provenance": {
            "marinskyrl_commit": executed_commit,
            "marinskyrl_dirty": False,
            "marinskyrl_python_tree_sha256": hashlib.sha256(b"tree").hexdigest(),
            "harbor_commit": None,
        },
    }
    write(directory / "run.json", {"n": tasks, "seed": 42, "population": 700, "source_id": source_id})
    write(directory / "quality-reviews.json", document)
    return directory


def edit_review(directory: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Changes the document of a run in place; gives the directory."""
    path = directory / "quality-reviews.json"
    document = json.loads(path.read_text())
    change(document)
    write(path, document)
    return directory


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class _Run:
    directory: Path
    source: str
    shared: dict[str, Any]
    day: str
    judge: str
    everybody: Mapping[str, str] | None

    def source_subject(self) -> dict[str, Any]:
        return {
            "id": self.source,
            "level": "source",
            **self.shared,
            "task_id": None,
            "task_path": None,
            "row_index": None,
        }

    def task_subject(self, task: int) -> dict[str, Any]:
        return {
            "id": self.task_id(task),
            "level": "task",
            **self.shared,
            "task_id": f"row-{task}",
            "task_path": f"rows/{task}",
            "row_index": task,
        }

    def task_id(self, task: int) -> str:
        return f"{self.source}/task/row-{task}"

    def task_reviews(
        self, task: int, native: tuple[str, float], verdicts: Sequence[str], findings: list[Any], verdict: str
    ) -> Iterator[dict[str, Any]]:
        about = self.task_id(task)
        status, score = native
        result = {"status": status, "score": None, "passed": None, "reason": f"The verifier was {status}."}
        if status == "verified":
            result = {"status": status, "score": score, "passed": score == 1.0, "reason": None}
        trace = self.evidence(f"tasks/{task:04d}/execution-000/verifier-trace.jsonl", {"task": task, **result})
        yield self.review(
            f"{about}/runtime",
            about,
            VERIFIER,
            "runtime_execution",
            "unrated" if status == "verified" else "inconclusive",
            evidence=[trace],
            tests_executed=status == "verified",
            metrics=[{"key": "native_verifier_score", "value": result["score"], "scale": None}],
            attributes={"verification": {**result, "diagnostics": {}}, "execution_path": "gym", "route": "skyrl_gym"},
            at="09:00:00",
        )
        judges = []
        for number, said in enumerate(verdicts, start=1):
            opinion = self.evidence(f"tasks/{task:04d}/judges/{number}/parsed.json", {"judge": number, "verdict": said})
            judges.append(f"{about}/judge/{number}")
            yield self.review(
                judges[-1],
                about,
                {"id": self.judge, "label": f"Judge {number}", "kind": "model"},
                "model_judgment",
                said,
                evidence=[trace, opinion],
                findings=findings if number == 1 else [observation()],
                attributes={"judge_index": number, "independent_session": True, "prompt": "Judge the task."},
                at=f"12:0{number}:00",
            )
        yield self.review(
            f"{about}/synthesis",
            about,
            {"id": self.judge, "label": "Coalescer", "kind": "model"},
            "synthesis",
            verdict,
            evidence=[trace],
            derived=[f"{about}/runtime", *judges],
            at="12:30:00",
        )

    def source_synthesis(
        self, reviews: list[Any], verdict: str, findings: list[Any], attributes: dict[str, Any], summary: str
    ) -> dict[str, Any]:
        return self.review(
            f"{self.source}/synthesis",
            self.source,
            {"id": self.judge, "label": "Coalescer", "kind": "model"},
            "synthesis",
            verdict,
            evidence=[self.evidence("coalescer/parsed.json", {"verdict": verdict})],
            findings=findings,
            derived=[r["id"] for r in reviews if r["method"] != "synthesis"],
            attributes=attributes,
            summary=summary,
            scope="source_sample",
            at="12:45:00",
        )

    def review(
        self,
        review_id: str,
        about: str,
        reviewer: Mapping[str, str],
        method: str,
        verdict: str,
        *,
        evidence: list[Any],
        at: str,
        tests_executed: bool | None = None,
        metrics: Iterable[Any] = (),
        findings: Iterable[Any] = (),
        derived: Iterable[str] = (),
        attributes: Mapping[str, Any] | None = None,
        summary: str = "Made for a test.",
        scope: str = "single_task",
    ) -> dict[str, Any]:
        return {
            "id": review_id,
            "subject_id": about,
            "reviewer": self.person(reviewer),
            "publisher": self.person(PUBLISHER),
            "reviewed_at": f"{self.day}T{at}+00:00",
            "imported_at": f"{self.day}T13:00:00+00:00",
            "method": method,
            "tests_executed": tests_executed,
            "coverage": {
                "scope": scope,
                "sample_count": 1 if scope == "single_task" else None,
                "population_count": 700,
                "sampling_method": "reservoir",
                "seed": "42",
                "samples": [],
            },
            "summary": summary,
            "verdict": verdict,
            "metrics": list(metrics),
            "findings": [{"id": f"{review_id}/finding/{i}", **finding} for i, finding in enumerate(findings)],
            "evidence": evidence,
            "derived_from_review_ids": list(derived),
            "supersedes_review_id": None,
            "attributes": dict(attributes or {}),
        }

    def person(self, named: Mapping[str, str]) -> dict[str, str]:
        return {**named, **(self.everybody or {})}

    def evidence(self, name: str, content: object) -> dict[str, Any]:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = json.dumps(content, sort_keys=True).encode() + b"\n"
        path.write_bytes(data)
        return {
            "url": f"file:///somewhere/else/{name}",
            "snapshot_path": name,
            "sha256": hashlib.sha256(data).hexdigest(),
            "retrieved_at": f"{self.day}T12:50:00+00:00",
            "locator": {"kind": "line_range", "value": "1-1"},
            "artifact_revision": None,
        }

    def tag(self, number: int, namespace: str, value: str) -> dict[str, Any]:
        return {
            "id": f"{self.source}/tag/{number}",
            "target": {"kind": "subject", "id": self.source},
            "namespace": namespace,
            "value": value,
            "origin": "curated",
            "assigned_by": self.person(PUBLISHER),
            "assigned_at": f"{self.day}T12:50:00+00:00",
            "evidence_review_ids": [f"{self.source}/synthesis"],
            "note": None,
            "supersedes_assignment_id": None,
            "state": "active",
        }
