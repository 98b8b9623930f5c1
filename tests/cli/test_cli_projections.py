"""`ledger projection …` and `ledger event disregard`: what they show, ask, refuse and record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ledger.rules.sets import DEFAULT_RUN_RULES
from services.cli import asking
from services.cli.output import Output
from services.server.app import in_process
from services.server.settings import Settings
from tests.cli.conftest import Ran, Run
from tests.rules import builders
from tests.server.doors import Doors, of, opened

OLD, NEW = "atlas-page-1", "ledger-1"
DIGEST = re.compile(r"[0-9a-f]{64}")
HOSTILE = "\x1b[31mred \u202etxet [bold]x[/bold]"


@dataclass(frozen=True)
class Page:
    """A log begun under the page's rules, with a published review, and the command on it."""

    run: Run
    address: str
    doors: Doors

    def __call__(self, *arguments: object) -> Ran:
        return self.run(*arguments, "--address", self.address)

    def json(self, *arguments: object) -> Any:
        return self(*arguments, "--json").json

    def of_sources(self) -> list[dict[str, Any]]:
        return [g for g in self.json("projection", "list") if g["projection"] == "sources"]

    def built(self) -> str:
        """The new rules, adopted and built beside the live ones; gives the digest of what they would move."""
        self.doors.adopt(NEW)
        self.doors.rebuild(NEW)
        return str(self.doors.diff(NEW).diff_digest)


@pytest.fixture
def page(run: Run, tmp_path: Path) -> Iterator[Page]:
    settings = Settings(tmp_path / "home", first_rules=OLD)
    with in_process(settings) as address, opened(address) as doors:
        doors.list_source()
        doors.publish("r1", builders.good("r1"), verifier_revision_basis="catalogue")
        yield Page(run, address, doors)


def test_the_list_tells_who_answers_since_when_and_what_was_not_adopted(page: Page) -> None:
    page.doors.rebuild(NEW)
    page.doors.source(min_size=page.doors.size())
    live, runs, shadow = page.json("projection", "list")
    assert (live["status"], live["promoted"], live["log_size"]) == ("live", [4], page.doors.size())
    assert (shadow["rules"], shadow["status"], shadow["adopted"]) == (NEW, "shadow", False)
    table = page("projection", "list").out
    assert re.search(rf"sources\s+live\s+{OLD}\s+\d+\s+1\s+0\s+5\s", table)
    assert re.search(rf"sources\s+shadow\s+{NEW}\s+\d+\s+1\s+0\s+not adopted", table)
    assert (runs["projection"], runs["status"], runs["rules"]) == ("runs", "live", DEFAULT_RUN_RULES)
    assert re.search(rf"runs\s+live\s+{DEFAULT_RUN_RULES}\s+\d+\s+0\s+0\s+-\s", table)


def test_runs_are_rebuilt_by_name_or_by_rules_and_never_promoted(page: Page) -> None:
    for asked in (("runs",), ("--rules", DEFAULT_RUN_RULES)):
        told = page("projection", "rebuild", *asked).out
        assert told.startswith(f"OK: runs rebuilt through size {page.doors.size()} under {DEFAULT_RUN_RULES}")
        assert "equal to what was shown" in told
    refused = page("projection", "promote", DEFAULT_RUN_RULES, "--yes", "--json")
    assert (refused.code, refused.error["reason"]) == (1, "NOT_SUPPORTED")
    assert f"--rules {DEFAULT_RUN_RULES}" in refused.error["remedy"]


def test_a_rebuild_says_whether_it_is_equal_or_the_first_of_its_rules(page: Page) -> None:
    size = page.doors.size()
    same = page("projection", "rebuild").out
    assert same.startswith(f"OK: sources rebuilt through size {size} under {OLD}")
    assert "equal to what was shown" in same
    other = page.json("projection", "rebuild", "--rules", NEW, "--processes", "1")
    assert (other["equal"], other["compared_with"], other["processes"]) == (True, "", 1)
    assert other["generation"]["rules"] == NEW
    assert "the first under these rules" in page("projection", "rebuild", "--rules", "atlas-code-1").out


def test_a_rebuild_under_rules_that_are_none_is_not_found(page: Page) -> None:
    got = page("projection", "rebuild", "--rules", "house-rules", "--json")
    assert (got.code, got.error["reason"]) == (4, "NOT_FOUND")


def test_what_answers_already_is_not_offered_for_promotion(page: Page) -> None:
    got = page("projection", "diff", OLD)
    assert got.code == 0
    assert "answers already" in got.err
    assert "promote" not in got.err


def test_the_difference_tells_the_count_by_change_then_each_source_with_both_sides(page: Page) -> None:
    digest = page.built()
    got = page("projection", "diff", NEW)
    assert got.code == 0
    lines = got.out.splitlines()
    assert re.search(r"^sources that move +1$", got.out, re.MULTILINE)
    assert re.search(r"^1 +applicability: current -> unknown$", got.out, re.MULTILINE)
    start = lines.index(builders.SOURCE)
    assert "  applicability: current -> unknown" in lines[start:]
    assert any(re.fullmatch(r"  before: applicability, [a-z.\-]+: .+", line) for line in lines[start:])
    assert any(re.fullmatch(r"  after: applicability, [a-z.\-]+: .+\(events [\d, ]+\)", line) for line in lines[start:])
    assert f"--diff-digest {digest}" in got.err
    whole = page.json("projection", "diff", NEW)
    assert (whole["diff_digest"], whole["total"], len(whole["changes"])) == (digest, 1, 1)
    assert "next_page_token" not in whole


def test_promoting_without_a_terminal_needs_the_digest_or_a_yes(page: Page) -> None:
    digest = page.built()
    before = page.doors.size()
    got = page("projection", "promote", NEW, "--json")
    assert (got.code, got.error["reason"]) == (2, "USAGE")
    assert f"--diff-digest {digest}" in got.error["remedy"]
    assert page.doors.size() == before
    told = page.json("projection", "promote", NEW, "--diff-digest", digest, "--note", "as agreed", "--actor", "c-1")
    assert (told["moved"], told["size"], told["already_in_force"]) == (1, before + 1, False)
    event = page.json("event", "show", before, "--content")
    assert (event["payload"]["note"], event["header"]["actor"]["id"]) == ("as agreed", "c-1")


def test_yes_promotes_whatever_it_moves_and_a_second_time_nothing(page: Page) -> None:
    page.built()
    first = page("projection", "promote", NEW, "--yes").out
    assert f"{NEW} is in force from size {page.doors.size()} on; the promotion moved 1 source." in first
    again = page("projection", "promote", NEW, "--yes")
    assert (again.code, "nothing was recorded" in again.out) == (0, True)


def test_a_dry_run_of_a_promotion_is_the_difference(page: Page) -> None:
    page.built()
    before = page.doors.size()
    assert page("projection", "promote", NEW, "--dry-run").out == page("projection", "diff", NEW).out
    assert page.doors.size() == before


def test_on_a_terminal_the_summary_is_shown_and_asked_about(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page.built()
    before = page.doors.size()
    asked: list[str] = []
    monkeypatch.setattr(asking, "can_ask", lambda _out: True)
    monkeypatch.setattr(asking.click, "confirm", lambda question, **_how: asked.append(question))
    got = page("projection", "promote", NEW)
    assert got.code == 0
    assert asked == [f"Let {NEW} answer, and move 1 source?"]
    assert re.search(r"^sources that move +1$", got.out, re.MULTILINE)
    assert page.doors.size() == before + 1


def test_a_no_changes_nothing(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page.built()
    before = page.doors.size()
    monkeypatch.setattr(asking, "can_ask", lambda _out: True)
    monkeypatch.setattr("sys.stdin", _Typed("n\n"))
    assert page("projection", "promote", NEW).code == 130
    assert page.doors.size() == before


class _Typed:
    def __init__(self, text: str) -> None:
        self._lines = iter(text.splitlines(keepends=True))

    def readline(self) -> str:
        return next(self._lines)


def test_nobody_is_asked_where_json_is_read() -> None:
    assert not asking.can_ask(Output(as_json=True))


def test_a_difference_that_moved_is_refused_with_the_new_digest(page: Page) -> None:
    page.built()
    got = page("projection", "promote", NEW, "--diff-digest", "0" * 64, "--json")
    assert (got.code, got.error["reason"]) == (5, "DIFF_MOVED")
    assert DIGEST.fullmatch(got.error["details"]["diff_digest"])
    assert got.error["remedy"]


def test_what_was_not_adopted_is_refused_with_the_command_that_adopts_it(page: Page) -> None:
    page.doors.rebuild(NEW)
    got = page("projection", "promote", NEW, "--yes", "--json")
    assert (got.code, got.error["reason"]) == (5, "NOT_ADOPTED")
    assert f"ledger rules adopt {NEW}" in got.error["remedy"]


def test_rolling_back_is_promoting_the_kept_generation(page: Page) -> None:
    page.built()
    page("projection", "promote", NEW, "--yes")
    assert page.json("projection", "promote", OLD, "--yes")["generation"]["status"] == "live"
    assert {g["rules"]: g["status"] for g in page.of_sources()} == {OLD: "live", NEW: "kept"}


def test_dropping_needs_a_yes_and_never_takes_what_answers(page: Page) -> None:
    page.built()
    assert page("projection", "drop", NEW).code == 2
    told = page("projection", "drop", NEW, "--yes").out
    assert f"ledger projection rebuild --rules {NEW}" in told
    assert [g["rules"] for g in page.of_sources()] == [OLD]
    assert page("projection", "drop", OLD, "--yes").code == 5


def test_an_event_is_disregarded_with_its_reason_and_a_repeat_records_nothing(page: Page) -> None:
    pos = page.doors.read(filter={"types": ["review.published"]})[0].pos
    said = ("event", "disregard", pos, "--reason", "for another source", "--yes", "--actor", "c-1")
    first = page.json(*said)
    assert first["recorded"] == 1
    again = page.json(*said)
    assert (again["recorded"], again["already_recorded"]) == (0, 1)
    payload = page.json("event", "show", first["events"][0]["pos"], "--content")["payload"]
    assert (payload["pos"], payload["reason"]) == (pos, "for another source")
    assert page.json("source", "show", builders.SOURCE)["quality"] == "unreviewed"


def test_a_dry_run_of_a_disregard_shows_the_event_and_records_nothing(page: Page) -> None:
    before = page.doors.size()
    pos = page.doors.read(filter={"types": ["review.published"]})[0].pos
    got = page("event", "disregard", pos, "--reason", "x", "--dry-run")
    assert f"review.published at position {pos}, on source/{builders.SOURCE}" in got.out
    assert page.doors.size() == before


def test_disregarding_without_a_terminal_needs_a_yes(page: Page) -> None:
    before = page.doors.size()
    got = page("event", "disregard", 5, "--reason", "x", "--json")
    assert (got.code, got.error["reason"]) == (2, "USAGE")
    assert page.doors.size() == before


def test_what_cannot_be_disregarded_is_refused_by_the_ledger(page: Page) -> None:
    got = page("event", "disregard", 0, "--reason", "x", "--yes", "--json")
    assert (got.code, got.error["reason"]) == (5, "REFUSED_BY_RULES")
    assert "key.introduced" in got.error["problems"][0]["message"]
    assert page("event", "disregard", 10_000, "--reason", "x", "--yes").code == 4


def test_recorded_text_steers_no_terminal(page: Page) -> None:
    page.doors.append(of(builders.suspected("d1").model_copy(update={"summary": HOSTILE})))
    pos = page.doors.size() - 1
    got = page("event", "disregard", pos, "--reason", HOSTILE, "--yes")
    assert got.code == 0
    assert "\x1b" not in got.out + got.err
    assert "\u202e" not in got.out + got.err


def test_a_new_log_begins_under_the_rules_that_are_named_and_an_existing_one_keeps_its_own(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGER_FIRST_RULES", "atlas-code-1")
    assert [g["rules"] for g in run("projection", "list", "--json").json] == ["atlas-code-1", DEFAULT_RUN_RULES]
    monkeypatch.setenv("LEDGER_FIRST_RULES", NEW)
    assert [g["rules"] for g in run("projection", "list", "--json").json] == ["atlas-code-1", DEFAULT_RUN_RULES]


def test_first_rules_that_are_none_are_a_usage_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_FIRST_RULES", "house-rules")
    got = run("projection", "list", "--json")
    assert (got.code, got.error["reason"]) == (2, "USAGE")
    assert NEW in got.error["remedy"]
    assert "house-rules" in run("serve", "--port", "0", "--json").error["message"]


def test_the_json_of_every_answer_is_one_object(page: Page) -> None:
    page.built()
    for command in (("diff", NEW), ("rebuild",), ("promote", NEW, "--yes"), ("drop", OLD, "--yes")):
        assert isinstance(json.loads(page("projection", *command, "--json").out), dict)
