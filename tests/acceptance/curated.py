"""What a curator does to one source, a line each; every deed is a real command on real files.

source.review()                              # a Good review is published
source.confirm("d1")                         # a defect, reproduced on a native input
source.shown()["quality"]                    # "some_issues"; asked through both doors
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledger.client.reader import At
from services.cli.demo_plan import DATA
from tests.acceptance.doors import Doors
from tests.publications.review_builder import build_review, edit_review, issue, resolved_issue

ISSUE = "https://github.com/example/atlas/issues/7"
BAD: dict[str, Any] = {"verdict": "reject", "judge_verdicts": ("reject",) * 3, "findings": [issue("high")]}
"""What makes a review support Bad."""
SOME_ISSUES: dict[str, Any] = {"judge_findings": [issue("medium")]}
NO_RATING: dict[str, Any] = {"supplemental": True}

_numbers = itertools.count(1)


@dataclass
class Curated:
    """One source of the inventory, and what its curator keeps of it on disk."""

    doors: Doors
    row: dict[str, Any]
    folder: Path
    verifier: str | None = field(init=False)
    dataset: str = field(init=False)

    def __post_init__(self) -> None:
        self.verifier = self.row.get("verifier_revision")
        self.dataset = self.row.get("dataset_revision") or self.row["revision"]

    @property
    def id(self) -> str:
        return str(self.row["id"])

    @property
    def stream(self) -> str:
        return f"source/{self.id}"

    def shown(self, at: At = None) -> dict[str, Any]:
        return self.doors.shown(self.id, at)

    def quality(self, at: At = None) -> str:
        return str(self.shown(at)["quality"])

    def difficulty(self, at: At = None) -> str:
        return str(self.shown(at)["difficulty"]["status"])

    def run_of(self, *, edit: Callable[[dict[str, Any]], object] | None = None, **options: Any) -> Path:
        """A review run on disk, unlike every other one."""
        number = next(_numbers)
        known = {
            "source_id": self.id,
            "repository": self.row["dataset_id"],
            "dataset_revision": self.dataset,
            "tasks": 1,
            "summary": f"Checked for a test, number {number}.",
        }
        directory = build_review(self.folder / f"run-{number}", **{**known, **options})
        return edit_review(directory, edit) if edit else directory

    def review(self, *flags: object, **options: Any) -> str:
        """Publishes a review, Good unless the options say otherwise; gives its id."""
        events = self.doors.record("review", "publish", self.run_of(**options), *flags)
        return str(self.doors.payload(events[-1]["id"])["review"])

    def suspect(self, defect: str = "d1", summary: str = "an answer with its unit may be refused") -> None:
        self.doors.record("defect", "suspect", self.id, defect, "--kind", "verifier", "--summary", summary)

    def case(self, defect: str) -> Path:
        """The saved input that fails."""
        path = self.folder / f"{defect}-case.json"
        path.write_text(json.dumps({"defect": defect, "prompt": "How many?", "answer": "7 apples"}))
        return path

    def confirming(self, defect: str = "d1", kind: str = "verifier", url: str | None = ISSUE) -> Sequence[object]:
        """The command that confirms a defect."""
        said = ["--summary", "an answer with its unit is refused", "--expected", "reward 1", "--observed", "reward 0"]
        named = ["--issue", url] if url else ["--issue-missing"]
        shown_by = ["--native-input", self.case(defect), "--reproduction", "grade the saved input"]
        return ["defect", "confirm", self.id, defect, "--kind", kind, *said, *shown_by, *named]

    def confirm(self, defect: str = "d1", kind: str = "verifier", url: str | None = ISSUE) -> int:
        """Confirms a defect; gives the position."""
        (event,) = self.doors.record(*self.confirming(defect, kind, url))
        return int(event["pos"])

    def withdraw(self, defect: str = "d1") -> None:
        self.doors.record("defect", "withdraw", self.id, defect, "--reason", "the input was edited by hand")

    def validate(
        self,
        defect: str = "d1",
        *,
        replay: str | None = "passed",
        controls: Sequence[tuple[str, str]] = (("passed", "incorrect"), ("passed", "correct")),
        evidence: bool = True,
        flags: Sequence[object] = (),
    ) -> str:
        """Records what a fix was checked against; gives the event's id."""
        seen = self.folder / "verifier.log"
        seen.write_text("replayed the saved input\n")
        replays = ["--replay", replay, self.case(defect), "reward 1", "reward 1"] if replay else []
        ran = [
            word for outcome, kind in controls for word in ("--control", outcome, kind, "as it must be", "so it was")
        ]
        cited = ["--evidence", seen] if evidence else []
        command = ("defect", "validation", self.id, defect, "--fix", "https://github.com/example/atlas/pull/8")
        (event,) = self.doors.record(*command, *replays, *ran, *cited, *flags)
        return str(event["id"])

    def fix_review(self, *urls: str, **options: Any) -> str:
        """Publishes a resolution collection: a verified native run, and the issues said to be fixed."""
        return self.review(resolved_verifier_issues=self.fixed(*(urls or [ISSUE])), **options)

    def fixed(self, *urls: str) -> list[dict[str, Any]]:
        return [resolved_issue(url, self.dataset, self.verifier) for url in urls]

    def resolve(self, defect: str = "d1", *flags: object) -> int:
        """Resolves a defect; gives the position."""
        (event,) = self.doors.record("defect", "resolve", self.id, defect, *flags)
        return int(event["pos"])

    def repair(self, defect: str = "d1") -> None:
        """The whole way from a confirmed defect to a resolved one."""
        self.validate(defect)
        self.fix_review()
        self.resolve(defect)

    def revise(self, *, dataset: str | None = None, verifier: str | None = None) -> None:
        """Puts the source at other revisions."""
        named = [
            *(["--dataset-revision", dataset] if dataset else []),
            *(["--verifier-revision", verifier] if verifier else []),
        ]
        self.doors.record("source", "revise", self.id, *named)
        self.dataset, self.verifier = dataset or self.dataset, verifier or self.verifier

    def report(self, edit: Callable[[dict[str, Any]], object] | None = None) -> Path:
        """A difficulty report under protocol v2 on disk, unlike every other one."""
        number = next(_numbers)
        report = json.loads((DATA / "difficulty" / "svamp.json").read_text())
        report |= {"atlas_id": self.id, "source_revision": self.dataset, "verifier_revision": self.verifier}
        report["limitations"] = [f"Figures for test number {number}."]
        if edit:
            edit(report)
        path = self.folder / f"difficulty-{number}.json"
        path.write_text(json.dumps(report))
        return path

    def measure(self, edit: Callable[[dict[str, Any]], object] | None = None) -> list[dict[str, Any]]:
        """Publishes a difficulty report; gives its events."""
        return self.doors.record("difficulty", "publish", self.report(edit))
