"""Questions over history, and the files that they are exported to."""

# ruff: noqa: N802  # the methods bear the names of the wire
from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ledger.core.errors import NotFound
from ledger.wire import audit_pb2
from services.cli import rows
from services.cli.commands.audit import QUEUE_KINDS
from services.cli.exporting import FORMATS
from tests.cli.conftest import Run, run_command
from tests.client.fake_ledger import FakeLedger, refuse, serving

NASTY = "\x1b[31mred\x9b1m \u202etxet [bold]b[/bold] :smile:"
FORMULAS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " \n=1+1",
    '"=1+1',
    "'=1",
    "\ufeff=1",
    "\u200b=1",
    "\uff1d1",
]
WHERE = {"ledger_size": 120, "ledger_rules": "ledger-1", "ledger_policy_size": 130}


class Audited(FakeLedger):
    """A ledger whose answers are the pages that a test gives it."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: list[list[Any]] = [[]]
        self.lose_after: int | None = None
        """The page from which on nothing is found."""
        self.agreed = audit_pb2.AgreementResponse()
        self.tree: list[audit_pb2.WhyNode] = []

    def _answered(self, request: Any) -> audit_pb2.AnswerCoordinates:
        size = request.size if request.WhichOneof("at") == "size" else 120
        policy = 130 if request.WhichOneof("policy") else size
        return audit_pb2.AnswerCoordinates(
            size=size,
            recorded_at_us=1_790_000_000_000_000,
            final=True,
            rules="ledger-1",
            rules_digest="d" * 64,
            redactions_through=140,
            policy_size=policy,
        )

    def _page(self, kind: Any, field: str, request: Any, context: Any, **more: Any) -> Any:
        self.asked.append(type(request).FromString(request.SerializeToString()))
        number = int(request.page_token or 0)
        if self.lose_after is not None and number > self.lose_after:
            refuse(context, NotFound("the page is gone", remedy="Ask again."))
        following = str(number + 1) if number + 1 < len(self.pages) else ""
        return kind(**{field: self.pages[number]}, next_page_token=following, **more)

    def Judgments(self, request: Any, context: Any) -> audit_pb2.JudgmentsResponse:
        where = self._answered(request.coordinates)
        return self._page(audit_pb2.JudgmentsResponse, "judgments", request, context, coordinates=where)

    def Timeline(self, request: Any, context: Any) -> audit_pb2.TimelineResponse:
        where = self._answered(request.coordinates)
        return self._page(audit_pb2.TimelineResponse, "entries", request, context, coordinates=where)

    def Queue(self, request: Any, context: Any) -> audit_pb2.QueueResponse:
        where = self._answered(request.coordinates)
        counts = {"stale_review": 2, "suspected_defect": 1}
        return self._page(audit_pb2.QueueResponse, "items", request, context, coordinates=where, counts=counts)

    def ListSources(self, request: Any, context: Any) -> audit_pb2.ListSourcesResponse:
        where = self._answered(request.coordinates)
        return self._page(audit_pb2.ListSourcesResponse, "sources", request, context, coordinates=where)

    def Diff(self, request: Any, context: Any) -> audit_pb2.DiffResponse:
        sides = {"before": self._answered(request.before), "after": self._answered(request.after)}
        counts = {"quality: good -> bad": 1}
        return self._page(
            audit_pb2.DiffResponse, "changes", request, context, counts=counts, digest="e" * 64, total=1, **sides
        )

    def Agreement(self, request: Any, context: Any) -> audit_pb2.AgreementResponse:
        self.asked.append(request)
        self.agreed.coordinates.CopyFrom(self._answered(request.coordinates))
        return self.agreed

    def Why(self, request: Any, context: Any) -> audit_pb2.WhyResponse:
        self.asked.append(request)
        where = self._answered(request.coordinates)
        return audit_pb2.WhyResponse(source=audit_pb2.Source(id=request.id), tree=self.tree, coordinates=where)

    def SourceAsOf(self, request: Any, context: Any) -> audit_pb2.SourceAsOfResponse:
        self.asked.append(request)
        where = self._answered(request.coordinates)
        return audit_pb2.SourceAsOfResponse(source=audit_pb2.Source(id=request.id), coordinates=where)


@pytest.fixture
def ledger(run: Run, tmp_path: Path) -> Iterator[Audited]:
    ledger = Audited()
    with serving(ledger, tmp_path) as address:
        ledger.address = address  # type: ignore[attr-defined]
        yield ledger


@pytest.fixture
def ask(ledger: Audited) -> Run:
    return lambda *arguments: run_command(*arguments, "--address", ledger.address)  # type: ignore[attr-defined]


def judgment(pos: int, **fields: Any) -> audit_pb2.Judgment:
    known = {"source_id": "O:one", "reviewer": "model:j", "method": "model_judgment", "verdict": "keep"}
    return audit_pb2.Judgment(pos=pos, recorded_at_us=1_790_000_000_000_000 + pos, **{**known, **fields})


def pages(*summaries: list[str]) -> list[list[audit_pb2.Judgment]]:
    numbered = iter(range(100))
    return [[judgment(next(numbered), summary=s) for s in page] for page in summaries]


def cells(line: str) -> list[str]:
    return re.split(r"  +", line)


def test_every_filter_reaches_the_ledger_as_it_was_typed(ask, ledger):
    ask(
        *("audit", "judgments", "--source", "O:one", "--source", "O:two", "--task", "t1", "--judge", "human:mara"),
        *("--model", "example/judge-30b", "--model", "model:other", "--judge-kind", "model", "--verdict", "reject"),
        *("--severity", "high", "--method", "model_judgment", "--from", "2026-10-01", "--before", "2026-10-02"),
        *("--standing", "--applicability", "stale", "--review", "a" * 64, "--unpublished", "--at", "120"),
    )
    (request,) = ledger.asked
    assert request.filter == audit_pb2.JudgmentFilter(
        source_ids=["O:one", "O:two"],
        task_ids=["t1"],
        reviewers=["human:mara", "model:example/judge-30b", "model:other"],
        reviewer_kinds=["model"],
        verdicts=["reject"],
        severities=["high"],
        methods=["model_judgment"],
        reviewed_from_us=int(datetime(2026, 10, 1, tzinfo=UTC).timestamp()) * 1_000_000,
        reviewed_before_us=int(datetime(2026, 10, 2, tzinfo=UTC).timestamp()) * 1_000_000,
        superseded=False,
        applicabilities=["stale"],
        include_unpublished=True,
        reviews=["a" * 64],
    )


def test_what_is_not_asked_for_is_left_out_of_the_filter(ask, ledger):
    ask("audit", "judgments")
    assert ledger.asked[0].filter == audit_pb2.JudgmentFilter()


@pytest.mark.parametrize(
    "command",
    [
        ("audit", "judgments"),
        ("audit", "agreement"),
        ("audit", "timeline", "O:one"),
        ("audit", "why", "O:one"),
        ("audit", "queue"),
        ("source", "list"),
        ("source", "show", "O:one"),
        ("source", "why", "O:one"),
        ("attest", "list", "O:one"),
    ],
    ids=" ".join,
)
def test_every_reading_command_takes_the_coordinates_and_echoes_them(ask, ledger, command):
    got = ask(*command, "--at", "120", "--rules", "now", "--policy", "head", "--min-size", "7")
    assert got.code == 0
    asked = ledger.asked[-1].coordinates
    assert asked == audit_pb2.Coordinates(size=120, rules="now", policy_at_head=True, min_size=7)
    assert "As of size 120, recorded 2026-09-21 14:13:20 UTC, rules ledger-1, policy of size 130" in got.err
    ask(*command, "--at", "2026-10-01", "--policy", "130")
    asked = ledger.asked[-1].coordinates
    assert (asked.WhichOneof("at"), asked.policy_size) == ("recorded_at_us", 130)


@pytest.mark.parametrize("policy", ["soon", "-1", "1.5", "²", "9" * 20, ""])
def test_a_policy_is_a_size_or_the_head(ask, policy):
    got = ask("source", "list", "--policy", policy, "--json")
    assert got.code == 2
    assert "--policy" in got.error["remedy"]


@pytest.mark.parametrize("flag", ["--from", "--before"])
def test_a_date_that_is_none_is_a_usage_error_that_names_the_flag(ask, flag):
    got = ask("audit", "judgments", flag, "yesterday", "--json")
    assert got.code == 2
    assert flag in got.error["message"]


def test_a_table_has_a_row_for_every_judgment_of_every_page(ask, ledger):
    ledger.pages = [
        [judgment(7, task_id="t1", severity="high", reviewed_at="2026-10-01T00:00:00Z", applicability="current")],
        [],
        [judgment(9, overruled=True, superseded=12, summary="too short")],
    ]
    lines = ask("audit", "judgments").out.splitlines()
    assert lines[0].split()[:4] == ["pos", "source", "task", "judge"]
    assert lines[1].split() == [
        "7",
        "O:one",
        "t1",
        "model:j",
        "model_judgment",
        "keep",
        "high",
        "2026-10-01",
        "current",
    ]
    assert "the source" in lines[2]
    assert "keep (overruled)" in lines[2]
    assert cells(lines[2])[-3:] == ["unknown", "superseded by 12", "too short"]


# Exports


def test_all_pages_of_an_export_stand_at_the_first_one_and_every_row_says_where(ask, ledger, tmp_path):
    ledger.pages = pages(["a", "b"], ["c"])
    file = tmp_path / "judgments.ndjson"
    assert ask("audit", "judgments", "--at", "120", "--policy", "head", "--output", file).code == 0
    assert [r.page_token for r in ledger.asked] == ["", "1"]
    read = [json.loads(line) for line in file.read_text().splitlines()]
    assert [r["summary"] for r in read] == ["a", "b", "c"]
    assert all({k: r[k] for k in WHERE} == WHERE for r in read)


@pytest.mark.parametrize("form", ["json", "ndjson", "csv"])
def test_stdout_and_a_file_hold_the_same_rows(ask, ledger, tmp_path, form):
    ledger.pages = pages(["a", "é\n"], ["c"])
    file = tmp_path / "out"
    assert ask("audit", "judgments", "--format", form, "--output", file).out == ""
    printed = ask("audit", "judgments", "--format", form)
    assert printed.raw == file.read_bytes()
    assert printed.raw


def test_json_of_a_list_is_the_same_with_the_format_and_with_the_flag(ask, ledger):
    ledger.pages = pages(["a"], ["b"])
    flagged = ask("audit", "judgments", "--json")
    assert flagged.raw == ask("audit", "judgments", "--format", "json").raw
    assert [r["summary"] for r in flagged.json] == ["a", "b"]
    assert flagged.json[0]["recorded_at"] == "2026-09-21T14:13:20.000000Z"
    assert flagged.json[0]["severity"] is None
    assert flagged.json[0]["ledger_size"] == 120


@pytest.mark.parametrize("form", [f for f in FORMATS if f != "table"])
def test_an_export_without_rows_is_whole_all_the_same(ask, ledger, tmp_path, form):
    file = tmp_path / "out"
    assert ask("audit", "judgments", "--format", form, "--output", file).code == 0
    if form == "parquet":
        assert parquet(file).num_rows == 0
    elif form == "csv":
        assert len(read_csv(file)) == 1
    else:
        assert file.read_text() == {"json": "[]\n", "ndjson": ""}[form]


def read_csv(file: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(file.read_bytes().decode(), newline="")))


def test_csv_has_a_heading_and_ends_its_lines_in_crlf(ask, ledger, tmp_path):
    ledger.pages = pages(['say "no", twice\nand go'])
    file = tmp_path / "judgments.csv"
    ask("audit", "judgments", "--output", file)
    assert file.read_bytes().endswith(b"\r\n")
    heading, row = read_csv(file)
    read = dict(zip(heading, row, strict=True))
    assert read["summary"] == 'say "no", twice\nand go'
    assert read["recorded_at"] == "2026-09-21T14:13:20.000000Z"
    assert (read["severity"], read["findings"], read["sample"]) == ("", "", "false")
    assert read["ledger_rules"] == "ledger-1"


@pytest.mark.parametrize("text", FORMULAS)
def test_a_cell_that_a_spreadsheet_could_run_stays_text(ask, ledger, tmp_path, text):
    ledger.pages = pages([text])
    file = tmp_path / "judgments.csv"
    ask("audit", "judgments", "--output", file)
    heading, row = read_csv(file)
    assert dict(zip(heading, row, strict=True))["summary"] == f"'{text}"


@pytest.mark.parametrize("text", ["", "1+1", "a=1", "(=1)", "O'Neil", "{}", "2026-10-01"])
def test_a_cell_that_is_no_formula_is_as_it_was_recorded(text):
    assert rows.safe(text) == text


def test_numbers_stay_numbers_in_csv():
    assert [rows.safe(value) for value in (-1, -1.5, 0, None)] == [-1, -1.5, 0, None]


def test_a_negative_number_is_not_quoted_and_text_is(ask, ledger, tmp_path):
    model = audit_pb2.DifficultyModel(size="small", solve_rate=0.25)
    source = audit_pb2.Source(
        id="-1", input_rows=700, difficulty=audit_pb2.Difficulty(status="current", models=[model])
    )
    ledger.pages = [[source]]
    file = tmp_path / "sources.csv"
    assert ask("source", "list", "--output", file).code == 0
    heading, row = read_csv(file)
    read = dict(zip(heading, row, strict=True))
    assert (read["id"], read["input_rows"], read["difficulty.status"]) == ("'-1", "700", "current")
    assert json.loads(read["difficulty.models"])[0]["solve_rate"] == 0.25
    assert read["review.id"] == ""
    assert ',700,"' in file.read_text()


def parquet(file: Path) -> Any:
    return pytest.importorskip("pyarrow.parquet").read_table(file)


def test_parquet_keeps_types_and_says_of_which_log_it_is_and_where_it_stands(ask, ledger, tmp_path):
    finding = audit_pb2.JudgmentFinding(id="f1", dimension="clarity", evidence_sha256=["a" * 64])
    ledger.pages = [[judgment(1, summary="=1+1", findings=[finding])], [judgment(2, overruled=True)]]
    file = tmp_path / "judgments.parquet"
    assert ask("audit", "judgments", "--policy", "130", "--output", file).code == 0
    table = parquet(file)
    first, second = table.to_pylist()
    assert (first["pos"], first["summary"], first["overruled"]) == (1, "=1+1", None)
    assert first["findings"][0]["evidence_sha256"] == ["a" * 64]
    assert first["recorded_at"] == datetime.fromtimestamp(1_790_000_000, UTC).replace(microsecond=1)
    assert (second["overruled"], second["ledger_policy_size"]) == (True, 130)
    said = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert said["ledger_origin"] == ask_origin(ledger)
    assert (said["ledger_size"], said["ledger_rules"], said["ledger_policy_size"]) == ("120", "ledger-1", "130")
    assert (said["ledger_rules_digest"], said["ledger_redactions_through"]) == ("d" * 64, "140")


def ask_origin(ledger: Audited) -> str:
    return ledger.GetInfo(None, None).origin  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "row"),
    [
        (("source", "list"), audit_pb2.Source(id="O:one", counts=[audit_pb2.RowCount(basis="input", rows=3)])),
        (("audit", "timeline", "O:one"), audit_pb2.TimelineEntry(event=audit_pb2.WhyEvent(pos=3), parts=[1, 2])),
        (("audit", "diff", "1", "2"), audit_pb2.SourceChange(id="O:one", runs=["r1"])),
        (("audit", "queue"), audit_pb2.QueueItem(kind="stale_review", source_id="O:one", reusable=[4])),
        (("audit", "judgments"), judgment(1)),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else None,
)
def test_every_list_is_exported_in_every_form_with_the_same_values(ask, ledger, tmp_path, command, row):
    ledger.pages = [[row]]
    got = {}
    for form in ("json", "ndjson", "csv", "parquet"):
        file = tmp_path / f"out.{form}"
        assert ask(*command, "--output", file).code == 0
        got[form] = file
    (line,) = [json.loads(text) for text in got["ndjson"].read_text().splitlines()]
    (element,) = json.loads(got["json"].read_text())
    heading, row_of_csv = read_csv(got["csv"])
    (stored,) = parquet(got["parquet"]).to_pylist()
    fields = rows.flat(row).keys()
    assert line.keys() == stored.keys()
    assert set(fields) <= set(heading)
    assert element.keys() >= line.keys() - WHERE.keys()
    assert len(row_of_csv) == len(heading)
    assert (
        line["ledger_size"] == stored["ledger_size"] == int(dict(zip(heading, row_of_csv, strict=True))["ledger_size"])
    )


@pytest.mark.parametrize("form", ["json", "ndjson", "csv", "parquet"])
def test_an_export_that_breaks_off_leaves_the_old_file_and_nothing_else(ask, ledger, tmp_path, form):
    folder = tmp_path / "exports"
    folder.mkdir()
    file = folder / "out"
    file.write_text("old")
    ledger.pages, ledger.lose_after = pages(["a"], ["b"]), 0
    got = ask("audit", "judgments", "--format", form, "--output", file)
    assert got.code == 4
    assert [(p.name, p.read_text()) for p in folder.iterdir()] == [("out", "old")]


def test_a_broken_off_export_to_stdout_still_tells_the_error(ask, ledger):
    ledger.pages, ledger.lose_after = pages(["a"], ["b"]), 0
    got = ask("audit", "judgments", "--format", "csv")
    assert got.code == 4
    assert "the page is gone" in got.err


def test_a_file_that_cannot_be_written_is_a_usage_error(ask, tmp_path):
    got = ask("audit", "judgments", "--format", "csv", "--output", tmp_path / "nowhere" / "out.csv", "--json")
    assert (got.code, got.error["reason"]) == (2, "USAGE")


def test_with_json_a_file_is_told_of_as_one_object(ask, ledger, tmp_path):
    ledger.pages = pages(["a", "b"])
    file = tmp_path / "out.csv"
    told = ask("audit", "judgments", "--output", file, "--json").json
    assert (told["file"], told["format"], told["rows"], told["size"]) == (str(file), "csv", 2, 120)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--output", "out.unknown"],
        ["--format", "table", "--output", "out.csv"],
        ["--format", "parquet"],
        ["--format", "csv", "--json"],
        ["--format", "xml"],
    ],
    ids=" ".join,
)
def test_a_form_that_does_not_go_with_its_place_is_a_usage_error(ask, ledger, arguments):
    assert ask("audit", "judgments", *arguments).code == 2
    assert ledger.asked == []


def test_without_pyarrow_the_error_says_which_extra_to_install(ask, ledger, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    got = ask("audit", "judgments", "--output", tmp_path / "out.parquet", "--json")
    assert got.error["reason"] == "EXTRA_MISSING"
    assert "atlas-ledger[parquet]" in got.error["remedy"]
    assert not (tmp_path / "out.parquet").exists()


# The other questions


def test_agreement_is_told_per_question_and_per_judge(ask, ledger):
    verdicts = audit_pb2.Agreement(of="verdict", tasks=3, judgments=9, raw=0.5, kappa=-0.125, categories={"keep": 9})
    judge = audit_pb2.JudgeRecord(reviewer="model:j", judgments=9, synthesised=4, overruled=1)
    other = audit_pb2.JudgeRecord(reviewer=NASTY, judgments=2)
    undefined = audit_pb2.Agreement(of="clarity", tasks=3, judgments=9, raw=1.0)
    ledger.agreed = audit_pb2.AgreementResponse(verdicts=verdicts, dimensions=[undefined], judges=[judge, other])
    got = ask("audit", "agreement")
    lines = [line.split() for line in got.out.splitlines()]
    assert ["verdict", "3", "9", "0", "50.0%", "-0.125", "0", "keep", "9"] in lines
    assert ["clarity", "3", "9", "0", "100.0%", "-", "0"] in lines
    assert ["model:j", "9", "4", "1", "(25%)"] in lines
    assert "\x1b" not in got.out
    told = ask("audit", "agreement", "--json").json
    assert (told["verdicts"]["kappa"], told["dimensions"][0]["kappa"]) == (-0.125, None)
    assert told["coordinates"]["policy_size"] == 120


def test_a_timeline_tells_what_each_event_changed(ask, ledger):
    event = audit_pb2.WhyEvent(pos=5, type="review.published", recorded_at_us=1_790_000_000_000_000)
    change = audit_pb2.FieldChange(field="quality", after="good")
    entry = audit_pb2.TimelineEntry(event=event, text="A review.", changes=[change], disregarded_by=9, elsewhere=True)
    ledger.pages = [[entry]]
    out = ask("audit", "timeline", "O:one", "--newest-first", "--full").out
    assert "review.published (elsewhere)" in out
    assert "A review. Disregarded by 9." in out
    assert "quality: none → good" in out
    assert ledger.asked[0].newest_first
    assert ledger.asked[0].full


@pytest.mark.parametrize(
    ("arguments", "before", "after"),
    [
        (["120", "2026-10-01"], ("size", ""), ("recorded_at_us", "")),
        (["120"], ("size", ""), (None, "")),
        (["--from", "120", "--to", "now"], ("size", ""), (None, "")),
        (["--to", "120", "--rules-from", "a"], (None, "a"), ("size", "")),
    ],
)
def test_a_difference_names_its_sides_as_arguments_or_as_options(ask, ledger, arguments, before, after):
    assert ask("audit", "diff", *arguments).code == 0
    (request,) = ledger.asked
    assert (request.before.WhichOneof("at"), request.before.rules) == before
    assert (request.after.WhichOneof("at"), request.after.rules) == after


def test_two_rule_sets_are_compared_at_one_size(ask, ledger):
    assert ask("audit", "diff", "--rules-from", "a", "--rules-to", "b", "--policy-to", "head").code == 0
    (request,) = ledger.asked
    assert request.before.WhichOneof("at") == request.after.WhichOneof("at") == "size"
    assert request.before.size == request.after.size
    assert (request.before.rules, request.after.rules) == ("a", "b")
    assert (request.before.WhichOneof("policy"), request.after.policy_at_head) == (None, True)


@pytest.mark.parametrize("arguments", [["1", "2", "3"], ["1", "--from", "2"], ["1", "--to", "2"]], ids=" ".join)
def test_a_difference_of_more_than_two_sides_is_a_usage_error(ask, arguments):
    assert ask("audit", "diff", *arguments).code == 2


def test_a_difference_tells_each_change_both_coordinates_and_how_many_move(ask, ledger, tmp_path):
    changes = [audit_pb2.FieldChange(field="quality", before="good", after="bad")]
    ledger.pages = [[audit_pb2.SourceChange(id="O:one", fields=changes, runs=["r1", "r2"])]]
    got = ask("audit", "diff", "100", "110")
    assert cells(got.out.splitlines()[1]) == ["O:one", "quality", "good", "bad", "2"]
    assert "quality: good -> bad 1" in got.err
    assert "Before: As of size 100" in got.err
    assert "After: As of size 110" in got.err
    file = tmp_path / "diff.parquet"
    told = ask("audit", "diff", "100", "110", "--output", file, "--json").json
    assert (told["before_size"], told["size"], told["digest"]) == (100, 110, "e" * 64)
    (row,) = parquet(file).to_pylist()
    assert (row["ledger_before_size"], row["ledger_size"]) == (100, 110)


def test_a_table_of_differences_has_no_column_of_runs_while_none_used_what_moves(ask, ledger):
    changes = [audit_pb2.FieldChange(field="quality", before="good", after="bad")]
    ledger.pages = [[audit_pb2.SourceChange(id="O:one", fields=changes)]]

    assert cells(ask("audit", "diff", "100", "110").out.splitlines()[0]) == ["id", "field", "before", "after"]


def node(kind: str, text: str, *children: audit_pb2.WhyNode, **fields: Any) -> audit_pb2.WhyNode:
    return audit_pb2.WhyNode(kind=kind, text=text, children=children, **fields)


@pytest.fixture
def tree(ledger: Audited) -> None:
    cited = node("artifact", "trace.json", sha256="a" * 64)
    event = node("event", f"review.published {NASTY}", cited, pos=17)
    again = node("event", f"review.published {NASTY}", cited, node("event", "a part", pos=16), pos=17)
    ledger.tree = [
        node("value", "quality: Good", node("reason", "The newest review is good.", event, rule="q.good")),
        node("value", "review: abc", node("reason", "It is the newest.", again, rule="r.newest")),
    ]


@pytest.mark.usefixtures("tree")
def test_why_tells_an_event_once_and_counts_what_it_cites(ask):
    lines = ask("audit", "why", "O:one").out.splitlines()
    assert len(lines) == 8
    assert lines[3].endswith("(cites 1 artifact)")
    assert lines[6].startswith("      17 review.published")
    assert lines[6].endswith("(as above)")
    assert lines[7] == "        16 a part"


@pytest.mark.usefixtures("tree")
def test_why_is_a_tree_down_to_the_evidence(ask):
    lines = ask("audit", "why", "O:one", "--evidence").out.splitlines()
    assert lines[:3] == ["O:one", "  quality: Good", "    The newest review is good. [q.good]"]
    assert lines[3].startswith("      17 review.published")
    assert lines[4] == "        trace.json " + "a" * 64
    told = ask("audit", "why", "O:one", "--json").json
    assert told["tree"][0]["children"][0]["children"][0]["pos"] == 17
    assert told["coordinates"]["rules"] == "ledger-1"


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch, ledger: Audited, *arguments: str) -> str:
    from services.cli.main import main  # noqa: PLC0415

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", Terminal(raw, "utf-8", write_through=True))
    assert main([*arguments, "--no-color", "--address", ledger.address]) == 0  # type: ignore[attr-defined]
    return raw.getvalue().decode()


@pytest.mark.usefixtures("tree")
def test_on_a_terminal_why_is_drawn_and_hostile_text_does_nothing(ledger, monkeypatch):
    out = on_terminal(monkeypatch, ledger, "audit", "why", "O:one")
    assert "├── quality: Good" in out
    assert "│       └── 17 review.published" in out
    assert not {c for c in out if c in "\x1b\x9b\u202e"}
    assert "[bold]b[/bold] :smile:" in out.replace("\n", " ").replace("  ", " ")


@pytest.mark.parametrize("form", ["csv", "json", "ndjson", "table"])
def test_recorded_text_does_nothing_to_a_terminal_in_any_form(ledger, monkeypatch, form):
    ledger.pages = pages([NASTY])
    out = on_terminal(monkeypatch, ledger, "audit", "judgments", "--format", form)
    assert not {c for c in out if c in "\x1b\x9b\u202e"}


def test_a_file_keeps_recorded_text_as_it_is(ask, ledger, tmp_path):
    ledger.pages = pages([NASTY])
    file = tmp_path / "out.csv"
    ask("audit", "judgments", "--output", file)
    heading, row = read_csv(file)
    assert dict(zip(heading, row, strict=True))["summary"] == NASTY


def test_the_queue_tells_what_to_do_and_how_much_there_is(ask, ledger):
    item = audit_pb2.QueueItem(kind="stale_review", source_id="O:one", text="Review it.", events=[3], reusable=[1, 2])
    ledger.pages = [[item]]
    got = ask("audit", "queue", "--kind", "stale_review", "--kind", "suspected_defect", "--origin", "O")
    assert cells(got.out.splitlines()[1]) == ["stale_review", "O:one", "Review it.", "3", "1, 2"]
    assert "stale_review 2 · suspected_defect 1" in got.err
    assert list(ledger.asked[0].kinds) == ["stale_review", "suspected_defect"]
    assert list(ledger.asked[0].filter.origins) == ["O"]


def test_the_kinds_of_the_queue_are_those_of_the_wire():
    proto = (Path(__file__).parents[2] / "protos" / "ledger" / "v1" / "audit.proto").read_text()
    said = proto.partition("message QueueItem {")[2].partition("string kind")[0]
    assert [f'"{kind}"' for kind in QUEUE_KINDS] == [word.strip(",. \n") for word in said.replace("//", "").split()]
