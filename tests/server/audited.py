"""A history worth auditing, told through the doors: two sources, panels that disagree, a review that replaces another,
parts that nobody published, a defect from suspicion to resolution, a report.

    told = tell(doors)
    told.at["r1"]        # the size after the first review was published
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from ledger.client.drafts import Draft
from ledger.events.reviews import Finding, FindingEvidence, ReviewPublished, Subject
from tests.rules import builders
from tests.rules.builders import DATA, ORIGIN, SOURCE
from tests.server.doors import Doors, of

OTHER = f"{ORIGIN}:gsm"
JUDGES = ("model:example/one", "model:example/two", "model:example/three")


def subject(task: str | None, source: str = SOURCE) -> Subject:
    """The source, or one of its tasks."""
    level, path = ("source", None) if task is None else ("task", f"tasks/{task}")
    return Subject(
        id=f"{source}/{task or ''}", level=level, repository="org/data", dataset_revision=DATA, source_id=source,
        task_id=task, task_path=path, row_index=None,
    )  # fmt: skip


def issue(dimension: str, severity: str = "medium") -> Finding:
    cited = FindingEvidence(artifact=builders.ref("trace"), locator=None)
    return Finding(
        id=f"{dimension}-1", dimension=dimension, text=f"the {dimension} is wrong", severity=severity, kind="issue",
        evidence=[cited],
    )  # fmt: skip


def judged(collection: str, task: str | None, by: str, verdict: str = "keep", *found: Finding, **fields: Any):
    source = fields.pop("source", SOURCE)
    return builders.judgment(
        collection,
        verdict,
        *found,
        by=by,
        review_id=f"{collection}/{task}/{by}",
        subject=subject(task, source),
        **fields,
    )


def together(collection: str, task: str | None, verdict: str = "keep", *found: Finding, **fields: Any):
    source = fields.pop("source", SOURCE)
    return builders.synthesis(
        collection, verdict, *found, review_id=f"{collection}/{task}/synthesis", subject=subject(task, source), **fields
    )


def ran(collection: str, task: str, source: str = SOURCE):
    return builders.run(collection, review_id=f"{collection}/{task}/run", subject=subject(task, source))


def first_review(collection: str = "r1") -> list[BaseModel]:
    """Two tasks, three judges: one task in conflict, one judge overruled twice."""
    return [
        ran(collection, "t1"),
        ran(collection, "t2"),
        judged(collection, "t1", JUDGES[0]),
        judged(collection, "t1", JUDGES[1], reviewed_at="2026-10-02T00:00:00Z"),
        judged(collection, "t1", JUDGES[2], "reject", issue("grading", "high"), reviewed_at=None),
        judged(collection, "t2", JUDGES[0], "keep", issue("format", "low")),
        judged(collection, "t2", JUDGES[1]),
        judged(collection, "t2", JUDGES[2], "keep"),
        together(collection, "t1"),
        together(collection, "t2", "conditional", issue("format", "low")),
        together(collection, None),
    ]


def second_review() -> list[BaseModel]:
    """Of the other source: one task, one judge, who rejects it."""
    opinions = [judged("r2", "t1", JUDGES[0], "reject", source=OTHER), together("r2", None, "keep", source=OTHER)]
    return [ran("r2", "t1", OTHER), *opinions]


def published(name: str, ids: list[str], source: str = SOURCE, **fields: Any) -> ReviewPublished:
    return builders.published(name, name, ids, source_id=source, **fields)


@dataclass
class Told:
    """The history as it was told: where each chapter ended."""

    doors: Doors
    at: dict[str, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)

    def append(self, chapter: str, *drafts: Draft) -> int:
        self.at[chapter] = int(self.doors.append(*drafts).size)
        self.ids[chapter] = drafts[-1].id
        return self.at[chapter]

    def review(self, name: str, parts: list[BaseModel], source: str = SOURCE, **fields: Any) -> int:
        drafts = [of(part, f"source/{source}") for part in parts]
        closing = of(published(name, [d.id for d in drafts], source, **fields), f"source/{source}")
        return self.append(name, *drafts, closing)

    def list_sources(self, chapter: str, rows: dict[str, dict[str, Any]], make: Any = builders.declared) -> int:
        parts = [of(make(chapter, id=key, **fields), f"source/{key}") for key, fields in rows.items()]
        replaces = self.ids.get("refresh")
        size = self.append(chapter, *parts, of(builders.synced(chapter, [p.id for p in parts], replaces=replaces)))
        self.ids["refresh"] = self.ids[chapter]
        return size


def tell(doors: Doors) -> Told:
    """The whole history; waits until it is folded."""
    doors.put_named("trace", "quality-reviews.json", "input-1", "input-2", "replay.log", "difficulty.json")
    told = Told(doors)
    told.list_sources("listed", {SOURCE: {}, OTHER: {"name": "gsm"}})
    told.review("r1", first_review())
    told.append("suspected", of(builders.suspected("d0")))
    told.review("r2", second_review(), OTHER)
    told.append("unpublished", of(judged("loose", "t9", JUDGES[1], "reject")))
    audit = {"method": "static_inspection", "tests_executed": None, "verdict": "conditional", "verification": None}
    told.append("audit", of(builders.run("audit", review_id="audit/1", subject=subject(None), **audit)))
    told.append("confirmed", of(builders.confirmed("d1", issue=None)))
    told.append("measured", of(builders.report()))
    replaced = f"r1/t2/{JUDGES[2]}"
    again = judged("r3", "t2", "human:someone", "keep", supersedes_review_id=replaced, method="human_judgment")
    told.review("r3", [again, together("r3", None)])
    told.append("superseded", of(builders.superseded("r1", "r3")))
    told.append("withdrawn", of(builders.withdrawn("d1")))
    told.list_sources("revised", {SOURCE: {"dataset_revision": "data-2"}}, builders.revised)
    doors.sources({"min_size": told.at["revised"]})
    return told
