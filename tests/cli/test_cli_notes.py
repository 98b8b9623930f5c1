"""What a command says beside its answer, and how it refuses what was mistyped."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.client import faults
from ledger.core.errors import Problem
from ledger.events.wording import words
from services.cli.commands.demo import _where_to_look
from tests.cli.conftest import Run

SAMPLES = Path(__file__).parents[2] / "services" / "cli" / "demo_data"
SUSPICION = ("--kind", "verifier", "--summary", "s")


@pytest.mark.parametrize(
    "arguments",
    [
        ("artifact", "get", "deadbeef"),
        ("source", "revise", "O:one", "--verifier-revision", ""),
        ("source", "show", ""),
        ("log", "tail", "--type", "review.publishes"),
    ],
    ids=" ".join,
)
def test_a_malformed_argument_is_a_usage_error(own: Run, arguments: tuple[str, ...]) -> None:
    assert own(*arguments).code == 2


def test_an_unknown_event_type_is_answered_with_those_near_to_it(own: Run) -> None:
    assert "review.published" in own("log", "tail", "--type", "review.publishes").err


def test_a_tail_without_events_says_so(own: Run) -> None:
    assert own("log", "tail", "--stream", "source/none").err == "No event matches.\n"


def test_a_projection_that_is_none_is_not_found(own: Run) -> None:
    assert own("projection", "rebuild", "nope", "--json").code == 4


def test_a_fact_about_a_source_that_nobody_lists_is_recorded_with_a_note(own: Run) -> None:
    got = own("defect", "suspect", "O:nobody", "d1", *SUSPICION, "--json")

    assert got.json["recorded"] == 1
    assert "no such source in the catalogue" in got.err
    assert own("defect", "suspect", "O:nobody", "d2", *SUSPICION, "--quiet").err == ""
    assert "no such source" in own("defect", "validation", "O:nobody", "d1", "--fix", "f").err
    assert "no such source" not in own("defect", "suspect", "O:one", "d3", *SUSPICION).err


def test_a_suspicion_of_a_defect_that_is_open_is_recorded_with_a_note(own: Run, tmp_path: Path) -> None:
    case = tmp_path / "case.json"
    case.write_text("{}")
    said = ("--expected", "e", "--observed", "o", "--reproduction", "r", "--issue-missing", "--native-input", case)
    assert own("defect", "confirm", "O:one", "d1", *SUSPICION, *said).code == 0

    got = own("defect", "suspect", "O:one", "d1", *SUSPICION)

    assert (got.code, "open already" in got.err) == (0, True)


def test_an_import_that_retires_more_than_it_keeps_says_how_to_keep_them_and_a_revision_of_those_is_refused(
    own: Run, tmp_path: Path
) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text(json.dumps({"id": "O:three", "origin": "O"}))

    assert "2 retired; --partial keeps them" in own("catalogue", "import", file, "--dry-run").err
    assert "2 retired; --partial keeps them" in own("catalogue", "import", file).err

    got = own("source", "revise", "O:one", "--verifier-revision", "v9", "--json")
    assert got.code == 5
    assert "catalogue import" in got.error["remedy"]
    assert own("source", "why", "O:one", "--json").json["retired"] is True
    assert own("source", "list").err.startswith("1 source.")


def test_why_has_applicability_and_difficulty(own: Run) -> None:
    answer = own("source", "why", "O:one", "--json").json
    assert (answer["applicability"], answer["difficulty"]["status"]) == (None, "not_measured")


def test_a_source_of_a_past_moment_may_have_been_declared_later(own: Run) -> None:
    assert "declared later" in own("source", "show", "O:one", "--at", "1", "--json").error["remedy"]
    assert "declared later" not in own("source", "show", "O:none", "--json").error["remedy"]


def test_a_moment_that_is_none_is_named_once(own: Run) -> None:
    assert own("source", "list", "--at", "soon", "--json").error["message"].count("'soon'") == 1


def test_a_variable_that_is_no_setting_is_told_unless_quiet(own: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_ADRESS", "x")
    assert "LEDGER_ADRESS" in own("source", "list", "--json").err
    assert own("source", "list", "--quiet").err == ""


def test_a_report_published_again_by_another_actor_is_already_published(run: Run) -> None:
    assert run("catalogue", "import", SAMPLES / "atlas-sources-2026-09-29.jsonl").code == 0
    report = next(path for path in SAMPLES.rglob("*.json") if json.loads(path.read_text()).get("models"))
    first = run("difficulty", "publish", report, "--json").json

    again = run("difficulty", "publish", report, "--actor", "somebody-else")

    assert again.code == 0
    assert f"Already published at size {first['size']}" in again.err


def test_a_home_that_cannot_be_made_is_a_usage_error(run: Run) -> None:
    Path("file").write_text("")
    for command in (("source", "list"), ("demo", "--once")):
        assert run(*command, "--home", "file/home", "--json").code == 2


def test_without_the_extra_the_demonstration_leaves_no_home_and_advises_no_address(tmp_path: Path) -> None:
    bare = "import sys; sys.modules['sqlalchemy'] = None; from services.cli.main import main; sys.exit(main())"
    for command in (["demo", "--once"], ["serve"], ["db", "upgrade"], ["log", "fsck"]):
        ran = subprocess.run(
            [sys.executable, "-c", bare, *command, "--json"], capture_output=True, cwd=tmp_path, check=False, timeout=60
        )
        error = json.loads(ran.stderr)["error"]
        assert (ran.returncode, error["reason"]) == (2, "EXTRA_MISSING")
        assert "--address" not in error["remedy"]
    assert list(tmp_path.iterdir()) == []


def test_where_to_look_are_lines_that_a_shell_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/a b/ledger"])
    first = _where_to_look(Path("my home"), "O:it's").splitlines()[1]
    assert shlex.split(first) == [
        "/opt/a b/ledger", "source", "why", "O:it's", "--home", str(Path("my home").absolute())
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["ledger"])
    assert _where_to_look(Path("h"), "O:x").splitlines()[1].startswith("  ledger source why O:x ")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("^[!-~]{1,100}$", "must be 1 to 100 characters of printable ASCII without spaces"),
        ("^[0-9a-f]{64}$", "must be 64 lower-case hexadecimal digits"),
        ("^https?://[!-~]{1,2000}$", "must be an http or https link of 1 to 2000 characters"),
    ],
)
def test_a_pattern_is_told_as_what_it_allows(pattern: str, said: str) -> None:
    told = words({"type": "string_pattern_mismatch", "msg": "…", "ctx": {"pattern": pattern}})
    assert told.startswith(said)
    assert "[" not in told


def test_the_headline_of_a_bad_file_counts_and_the_problem_is_told_once(own: Run, tmp_path: Path) -> None:
    assert "2 problems" in faults.refused(tmp_path, "inventory", [Problem("a", "b")] * 2, remedy="r").message
    file = tmp_path / "bad.jsonl"
    file.write_text("not json\n")
    err = own("catalogue", "import", file).err
    assert err.splitlines()[0].endswith("is no inventory: 1 problem [INVALID_FILE]")
    assert err.count("bad.jsonl:1") == 1
    assert "is there" in own("catalogue", "import", tmp_path / "none", "--json").error["remedy"]
