"""What scripts may rely on: the JSON of the command, its errors, hostile text, retries and the demonstration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from services.cli.demo_plan import INVENTORY
from tests.acceptance.conftest import ROWS
from tests.acceptance.curated import BAD, SOME_ISSUES, Curated
from tests.acceptance.doors import COORDINATES, Doors, ledger

PROMISED = {
    "id", "origin", "name", "family", "dataset_id", "dataset_revision", "revision", "verifier_revision", "atlas_status",
    "intended_use", "is_benchmark", "input_rows", "quality", "applicability", "review", "difficulty", "open_defects",
    "suspected_defects", "reasons", "sample",
}  # fmt: skip
ADDED = {
    "retired", "row_sha256", "url", "resolved_defects", "underlying_quality", "counts", "attestations", "panel",
    "review_pool", "aliases", "tags",
}  # fmt: skip
HOSTILE = "red \x1b[31m title \x1b]0;owned\x07 c1 \x9b31m bidi \u202etxet\u202c line\nfeed\ttab [red]markup[/red] 数"


class TestJson:
    def test_a_source_has_all_its_keys_and_the_coordinates_of_the_answer(self, untouched: Doors) -> None:
        for source in (untouched.shown("MarinSkyRL:svamp"), *untouched.listed()):
            assert set(source) == PROMISED | ADDED | set(COORDINATES)
            assert {"status", "models"} <= set(source["difficulty"])

    def test_unknown_is_null_and_never_left_out(self, untouched: Doors) -> None:
        source = untouched.shown("Task Trove:DCAgent__code-contests-noblock")

        unknown = ("dataset_revision", "verifier_revision", "input_rows", "review", "applicability")
        assert {name: source[name] for name in unknown} == dict.fromkeys(unknown)
        assert (source["is_benchmark"], source["sample"], source["open_defects"]) == (False, False, [])

    def test_a_list_is_one_array_by_origin_then_id_with_the_excluded_in_it(self, untouched: Doors) -> None:
        listed = json.loads(untouched.run("source", "list", "--json").out)

        assert [(s["origin"], s["id"]) for s in listed] == sorted((r["origin"], r["id"]) for r in ROWS)
        assert sum(s["atlas_status"] == "Excluded" for s in listed) == 50
        assert len({json.dumps([s[name] for name in COORDINATES]) for s in listed}) == 1

    def test_an_empty_list_is_two_brackets_and_done(self, untouched: Doors) -> None:
        ran = untouched.run("source", "list", "--quality", "bad", "--json")

        assert (ran.code, ran.out) == (0, "[]\n")

    def test_retired_sources_are_listed_when_asked_for(self, svamp: Curated, tmp_path: Path) -> None:
        rest = tmp_path / "rest.jsonl"
        rest.write_text("".join(json.dumps(row) + "\n" for row in ROWS if row["id"] != svamp.id))
        svamp.doors.record("catalogue", "import", rest)

        assert len(svamp.doors.listed()) == 195
        listed = svamp.doors.listed("--retired", include_retired=True)
        assert [s["id"] for s in listed if s["retired"]] == [svamp.id]
        assert [s["id"] for s in listed] == [r["id"] for r in sorted(ROWS, key=lambda r: (r["origin"], r["id"]))]

    def test_a_moment_is_a_size_a_date_or_a_time(self, source: Curated) -> None:
        size = source.doors.size
        recorded = source.shown()["recorded_at"]
        source.review()

        assert (source.shown(at=size)["size"], source.shown(at=size)["final"]) == (size, True)
        assert source.shown(at=recorded)["size"] == size
        assert source.shown(at=recorded.replace("Z", "+00:00")) == source.shown(at=recorded)
        source.doors.not_shown(source.id, at="2026-01-01")
        assert source.doors.tell("source", "list", "--at", "2026-01-01") == []
        future = source.shown(at="2999-01-01")
        assert (future["quality"], future["size"], future["final"]) == ("good", source.doors.size, False)

    def test_equal_coordinates_give_equal_bytes(self, source: Curated) -> None:
        size = source.doors.size
        first = source.doors.run("source", "list", "--at", size, "--json").out
        source.review()
        source.confirm()

        assert source.doors.run("source", "list", "--at", size, "--json").out == first

    def test_the_answer_names_the_rules_in_force_and_none_before_the_first(self, untouched: Doors) -> None:
        assert untouched.shown("MarinSkyRL:svamp")["rules"] == "atlas-page-1"
        assert (
            untouched.tell("source", "show", "MarinSkyRL:svamp", "--rules", "atlas-page-1")["rules"] == "atlas-page-1"
        )
        untouched.refused("source", "show", "MarinSkyRL:svamp", "--rules", "no-such", code=4, reason="NOT_FOUND")

    @pytest.mark.parametrize(
        ("command", "kind"),
        [
            (("source", "show", "MarinSkyRL:svamp"), dict),
            (("source", "why", "MarinSkyRL:svamp"), dict),
            (("source", "list"), list),
            (("event", "show", "0"), dict),
            (("log", "tail"), list),
            (("projection", "list"), list),
            (("schema", "list"), list),
            (("schema", "show", "defect.confirmed"), dict),
            (("config", "show"), list),
            (("catalogue", "import", INVENTORY), dict),
        ],
        ids=lambda value: " ".join(map(str, value[:2])) if isinstance(value, tuple) else value.__name__,
    )
    def test_a_list_is_an_array_and_a_single_thing_an_object(
        self, untouched: Doors, command: tuple[object, ...], kind: type
    ) -> None:
        assert type(untouched.tell(*command)) is kind


class TestRetries:
    def test_a_command_with_the_same_id_is_already_recorded_with_the_first_receipt(self, source: Curated) -> None:
        command = ("defect", "suspect", source.id, "d1", "--kind", "verifier", "--summary", "s", "--id", "mine-1")
        (first,) = source.doors.record(*command)
        size = source.doors.size

        again = source.doors.run(*command, "--actor", "curator-1", "--actor-kind", "human", "--json")

        assert again.code == 0
        assert (again.json["recorded"], again.json["already_recorded"]) == (0, 1)
        assert again.json["events"] == [first | {"already_recorded": True}]
        assert source.doors.size == size

    def test_the_same_id_with_other_content_is_a_conflict(self, source: Curated) -> None:
        command = ("defect", "suspect", source.id, "d1", "--kind", "verifier", "--id", "mine-2", "--summary")
        source.doors.record(*command, "one thing")

        source.doors.refused(*command, "another thing", code=5, reason="ID_CONFLICT")

    def test_a_decision_is_retried_though_the_rules_would_refuse_it_by_now(self, source: Curated) -> None:
        command = [*source.confirming(), "--id", "mine-3"]
        source.doors.record(*command)
        source.doors.refused(*source.confirming(), code=5, reason="REFUSED_BY_RULES")

        again = source.doors.tell(*command, "--actor", "curator-1", "--actor-kind", "human")

        assert (again["recorded"], again["already_recorded"]) == (0, 1)

    def test_a_confirmation_is_retried_after_the_source_was_revised(self, source: Curated) -> None:
        command = [*source.confirming(), "--id", "mine-4"]
        command.remove("d1")
        (first,) = source.doors.record(*command)
        said = source.doors.payload(first["id"])
        source.revise(dataset="1" * 40, verifier="2" * 40)

        again = source.doors.tell(*command, "--actor", "curator-1", "--actor-kind", "human")

        assert again["events"] == [first | {"already_recorded": True}]
        assert [d["id"] for d in source.shown()["open_defects"]] == [said["defect"]]

    def test_a_resolution_is_retried_after_another_review_and_another_validation(self, source: Curated) -> None:
        source.confirm()
        source.validate()
        source.fix_review()
        command = ("defect", "resolve", source.id, "d1", "--id", "mine-5")
        (first,) = source.doors.record(*command)
        source.review()
        source.validate(controls=(("failed", "incorrect"),))

        again = source.doors.tell(*command, "--actor", "curator-1", "--actor-kind", "human")

        assert again["events"] == [first | {"already_recorded": True}]

    def test_a_suspicion_without_a_name_is_retried_as_the_same_suspicion(self, source: Curated) -> None:
        command = ("defect", "suspect", source.id, "--kind", "verifier", "--summary", "s", "--id", "mine-6")
        source.doors.record(*command)

        again = source.doors.tell(*command, "--actor", "curator-1", "--actor-kind", "human")

        assert (again["recorded"], again["already_recorded"]) == (0, 1)
        assert len(source.shown()["suspected_defects"]) == 1

    def test_a_validation_is_retried_after_the_source_was_revised(self, source: Curated) -> None:
        source.confirm()
        source.validate(flags=("--id", "mine-7"))
        size = source.doors.size
        source.revise(verifier="3" * 40)
        seen = source.doors.payload("mine-7")

        assert source.doors.size > size
        assert seen["verifier_revision"] != "3" * 40
        command = ("defect", "validation", source.id, "d1", "--fix", seen["fix"])
        replays = ("--replay", "passed", seen["replays"][0]["input_sha256"], "reward 1", "reward 1")
        ran = [w for k in ("incorrect", "correct") for w in ("--control", "passed", k, "as it must be", "so it was")]
        cited = ("--evidence", source.folder / "verifier.log", "--id", "mine-7")
        again = source.doors.tell(*command, *replays, *ran, *cited, "--actor", "curator-1", "--actor-kind", "human")
        assert (again["recorded"], again["already_recorded"]) == (0, 1)


class TestDryRuns:
    @pytest.mark.parametrize(
        ("options", "quality"), [({}, "good"), (SOME_ISSUES, "some_issues"), (BAD, "bad")], ids=["good", "some", "bad"]
    )
    def test_show_what_would_come_of_it_and_append_nothing(
        self, source: Curated, options: dict[str, Any], quality: str
    ) -> None:
        run = source.run_of(**options)
        size = source.doors.size

        planned = source.doors.tell("review", "publish", run, "--dry-run")

        assert (planned["dry_run"], planned["recorded"], source.doors.size) == (True, 0, size)
        assert source.quality() == "unreviewed"
        recorded = source.doors.record("review", "publish", run)
        assert [e["id"] for e in planned["events"]] == [e["id"] for e in recorded]
        assert (planned["source"]["quality"], source.quality()) == (quality, quality)


class TestHostileText:
    @pytest.fixture
    def hostile(self, source: Curated) -> Curated:
        source.suspect(summary=HOSTILE)
        return source

    def test_is_inert_for_people(self, hostile: Curated) -> None:
        position = hostile.doors.size - 1
        for command in (("source", "show", hostile.id), ("event", "show", position, "--content"), ("log", "tail")):
            out = hostile.doors.run(*command).out
            assert not set("\x1b\x07\x9b\u202e\u202c") & set(out), command
        shown = hostile.doors.run("source", "show", hostile.id).out
        (line,) = [line for line in shown.splitlines() if line.startswith("defect")]
        assert "[red]markup[/red] 数" in line
        assert "line feed tab" in line

    def test_is_faithful_in_json_and_steers_no_terminal(self, hostile: Curated) -> None:
        ran = hostile.doors.run("source", "show", hostile.id, "--json")

        assert ran.json["suspected_defects"][0]["summary"] == HOSTILE
        assert ran.out.isascii()
        assert not {c for c in ran.out if c < " "} - {"\n"}
        assert hostile.shown()["suspected_defects"][0]["summary"] == HOSTILE

    def test_is_inert_in_an_error_too(self, untouched: Doors) -> None:
        ran = untouched.run("source", "show", HOSTILE)

        assert ran.code != 0
        assert not set("\x1b\x07\x9b\u202e\u202c") & set(ran.err)


class TestTheDemonstration:
    def demo(self, *flags: object) -> Any:
        return ledger("demo", "--once", *flags)

    def test_loads_the_inventory_with_marked_samples_and_a_second_run_changes_nothing(self) -> None:
        first = self.demo("--json").json
        assert len(first) == 196
        samples = {s["id"] for s in first if s["sample"]}
        assert samples == {s["id"] for s in first if s["quality"] not in {"unreviewed", "unrated"}}
        assert {s["quality"] for s in first if s["sample"]} == {"good", "some_issues", "bad", "needs_re_review"}

        second = self.demo()
        assert second.code == 0
        assert "0 events recorded by this run" in second.err
        assert "Where to look" in second.err
        assert self.demo("--json").json == first
        where = ("--home", ".ledger-demo", "--json")
        assert ledger("log", "fsck", *where).json["ok"]
        tagged = [e for e in ledger("log", "tail", "-n", 1000, *where).json if "sample" in e["header"]["tags"]]
        assert {e["header"]["producer"]["id"] for e in tagged} == {"ledger-demo"}
        assert {e["header"]["stream"].removeprefix("source/") for e in tagged} - {"origin/MarinSkyRL"} == samples

    @pytest.mark.parametrize("named_by", ["flag", "environment"])
    def test_refuses_a_home_that_it_did_not_make_and_leaves_it_as_it_was(
        self, doors: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named_by: str
    ) -> None:
        home = tmp_path / "home"
        flags = ["--home", home] if named_by == "flag" else []
        if named_by == "environment":
            monkeypatch.setenv("LEDGER_HOME", str(home))
        size = doors.size

        refused = self.demo(*flags, "--json")

        assert (refused.code, refused.error["reason"]) == (5, "WRONG_HOME")
        assert "--home" in refused.error["remedy"]
        assert refused.error["details"]["home"] == str(home)
        assert doors.size == size
        assert sorted(path.name for path in home.parent.iterdir()) == ["home", "work"]
        assert not Path(".ledger-demo").exists()

    def test_lives_in_the_home_that_the_environment_names(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LEDGER_HOME", "elsewhere")

        assert self.demo("--quiet").code == 0
        assert Path("elsewhere/.demo").exists()
        assert not Path(".ledger-demo").exists()
