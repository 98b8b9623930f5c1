"""The story that the ledger is there for, told by its commands on each store, and asked again at every size.

A curator imports the real inventory, publishes a review of one source, confirms a defect in it, resolves it, publishes
again and changes its revision. Then: what was its Quality at any moment, and why?
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from services.cli.demo_plan import INVENTORY
from tests.acceptance.conftest import ROWS, open_doors
from tests.acceptance.doors import CURATOR, Doors, ledger
from tests.publications.review_builder import build_review, issue, resolved_issue
from tests.support.databases import fresh_database

SVAMP = next(row for row in ROWS if row["id"] == "MarinSkyRL:svamp")
FIRST_START = 5
"""Events that a ledger writes about itself before anybody else can."""
NEXT = "f" * 40
"""The verifier's later commit."""
ISSUE = "https://github.com/example/atlas/issues/7"
FIXED = resolved_issue(ISSUE, SVAMP["dataset_revision"], SVAMP["verifier_revision"])


@dataclass
class Chapter:
    """What the source was shown as from a size on, and the rule that said so."""

    size: int
    quality: str
    rule: str
    defects: int = 0


@dataclass
class Story:
    """Commands that each open the ledger for themselves, and what must be remembered of them."""

    home: Path
    db: str | None
    folder: Path
    chapters: list[Chapter] = field(default_factory=list)

    def record(self, *arguments: object) -> int:
        """Runs a command that appends; gives the size after it."""
        where = ["--home", self.home, *(["--db", self.db] if self.db else [])]
        told = ledger(*arguments, *CURATOR, *where, "--json").json
        assert told["recorded"] == len(told["events"]) > 0
        return int(told["size"])

    def chapter(self, quality: str, rule: str, *arguments: object, defects: int = 0) -> None:
        """Records something after which the source is shown as told."""
        self.chapters.append(Chapter(self.record(*arguments), quality, rule, defects))

    def run_of(self, name: str, **options: Any) -> Path:
        ran = {"executed_commit": SVAMP["verifier_revision"], **options}
        return build_review(self.folder / name, summary=f"The chapter of {name}.", **ran)


@pytest.fixture(params=["sqlite", "postgres"])
def story(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Story]:
    if request.param == "sqlite":
        yield Story(tmp_path / "home", None, tmp_path)
        return
    with fresh_database(request.getfixturevalue("postgres")) as uri:
        refused = ledger("source", "list", "--home", tmp_path / "home", "--db", uri, "--json")
        assert (refused.code, refused.error["reason"]) == (5, "SCHEMA_VERSION")
        assert ledger("db", "upgrade", "--db", uri, "--json").json != []
        assert ledger("db", "upgrade", "--db", uri, "--json").json == []
        yield Story(tmp_path / "home", uri, tmp_path)


def told(story: Story) -> None:
    """Everything that happens, in order."""
    case, log = story.folder / "case.json", story.folder / "verifier.log"
    case.write_text('{"prompt": "How many?", "answer": "7 apples"}')
    log.write_text("replayed the saved input: reward 1\n")
    source = SVAMP["id"]
    story.chapter("unreviewed", "quality.unreviewed", "catalogue", "import", INVENTORY)
    story.chapter("good", "quality.good", "review", "publish", story.run_of("first"))
    story.chapter(
        "some_issues", "quality.open-defect", "defect", "confirm", source, "units", "--kind", "verifier",
        "--summary", "an answer with its unit is refused", "--native-input", case, "--expected", "reward 1",
        "--observed", "reward 0", "--reproduction", "grade the saved input", "--issue", ISSUE, defects=1,
    )  # fmt: skip
    story.record(
        "defect", "validation", source, "units", "--replay", "passed", case, "reward 1", "reward 1",
        "--control", "passed", "incorrect", "reward 0", "reward 0", "--evidence", log,
    )  # fmt: skip
    story.record("review", "publish", story.run_of("fix", resolved_verifier_issues=[FIXED]))
    story.chapter("some_issues", "quality.waits-for-publication", "defect", "resolve", source, "units")
    story.chapter("good", "quality.good", "review", "publish", story.run_of("second", tasks=2))
    story.chapter("needs_re_review", "quality.needs-re-review", "source", "revise", source, "--verifier-revision", NEXT)
    story.chapter(
        "some_issues", "quality.some-issues", "review", "publish",
        story.run_of("third", judge_findings=[issue("medium")], executed_commit=NEXT),
    )  # fmt: skip


def ask_at_every_size(story: Story, doors: Doors) -> None:
    """At a size within a command's events the answer is that of the chapter before."""
    first, *later = story.chapters
    for size in (0, FIRST_START, FIRST_START + 50):
        doors.not_shown(SVAMP["id"], at=size)
    current = first
    for size in range(first.size, doors.size + 1):
        current = next((chapter for chapter in later if chapter.size == size), current)
        answer = doors.reader.why(SVAMP["id"], at=size)
        assert (answer.source.quality, len(answer.source.open_defects)) == (current.quality, current.defects), size
        assert answer.source.reasons[0].rule == current.rule, size
        assert answer.coordinates.size == size
        assert answer.coordinates.final
        assert all(event.pos < size for event in answer.events)
    assert current is later[-1]


def test_a_source_tells_its_quality_at_every_moment_and_why(story: Story) -> None:
    told(story)
    with open_doors(story.home, story.db) as doors:
        ask_at_every_size(story, doors)

        for chapter in story.chapters:
            by_size = doors.shown(SVAMP["id"], at=chapter.size)
            by_time = doors.shown(SVAMP["id"], at=by_size["recorded_at"])
            assert by_time == by_size
            assert by_size["quality"] == chapter.quality
            why = doors.why(SVAMP["id"], at=chapter.size)
            assert why["reasons"][0]["rule"] == chapter.rule
        now = doors.shown(SVAMP["id"])
        assert [d["status"] for d in now["resolved_defects"]] == ["resolved"]
        assert (now["sample"], now["rules"]) == (False, "ledger-1")

        before = [doors.reader.source(SVAMP["id"], at=chapter.size) for chapter in story.chapters]
        assert doors.tell("projection", "rebuild")["equal"] is True
        assert [doors.reader.source(SVAMP["id"], at=chapter.size) for chapter in story.chapters] == before
        size = doors.size
    where = ["--home", story.home, *(["--db", story.db] if story.db else [])]
    checked = ledger("log", "fsck", *where, "--json").json
    assert (checked["ok"], checked["size"]) == (True, size)
    tail = ledger("log", "tail", "-n", 1000, *where, "--json").json
    assert [event["pos"] for event in tail] == list(range(size))
    assert {json.dumps(e["header"]["actor"]) for e in tail if "curator" in json.dumps(e["header"])} == {
        '{"id": "curator-1", "kind": "human"}'
    }
