"""The catalogue's life at the command: refreshes upon a base, failures, versions, exports, single sources, aliases."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledger.client import Reader, Writer, actor, connect
from ledger.client.catalogue import plan_import
from ledger.client.catalogue_rows import catalogue_digest
from ledger.client.inventories import read_inventory
from ledger.core.errors import InvalidInput, LedgerError
from services.cli import refreshes
from services.cli.main import cli
from services.cli.state import State
from services.server.app import in_process
from services.server.settings import Settings

REVISION = "740312add88f781978c0658806c59bc2815b9866"

SOURCES: list[dict[str, Any]] = [
    {
        "id": "O:one",
        "origin": "O",
        "family": "math",
        "dataset_revision": "d1",
        "verifier_revision": "v1",
        "task_count": 700,
        "tags": [],
        "notes": None,
        "quality": "good",
        "review_url": "https://example.org/review",
        "review_date": "2026-09-29",
        "review_source_revision": "d1",
        "review_verifier_revision": None,
        "difficulty": None,
        "traces": None,
        "pipeline": {"name": "p", "version": "1", "files": ["a.parquet"]},
        "is_benchmark": False,
    },
    {"id": "O:two", "origin": "O", "task_count": None, "display_name": "a · b"},
    {"id": "P:three", "origin": "P", "task_count": 0, "turns": "Single-turn"},
]


def document(path: Path, sources: list[dict[str, Any]] = SOURCES, **changed: Any) -> Path:
    said = {"schema_version": 1, "revision": catalogue_digest(sources), "sources": sources, **changed}
    path.write_text(json.dumps(said, indent=2))
    return path


def revised(source_id: str, **fields: Any) -> list[dict[str, Any]]:
    return [source | fields if source["id"] == source_id else source for source in SOURCES]


@pytest.fixture
def published(run, tmp_path) -> Callable[..., Any]:
    """Runs a command on a ledger that holds the document."""
    assert run("catalogue", "publish", document(tmp_path / "first.json"), "--base", "none").code == 0
    return run


def versions(run, *more) -> list[dict[str, Any]]:
    return run("catalogue", "versions", "--json", *more).json


def present(run, origin="O") -> str:
    (now,) = [v for v in versions(run, "--origin", origin) if v["status"] == "present"]
    return now["base"]


def shown(run, source_id) -> dict[str, Any]:
    return run("source", "show", source_id, "--json").json


class TestValidating:
    def test_a_sound_document_is_told_by_origin_and_nothing_is_recorded(self, run, tmp_path):
        told = run("catalogue", "validate", document(tmp_path / "c.json"), "--json").json

        assert told["revision"] == catalogue_digest(SOURCES)
        assert [(o["origin"], o["sources"]) for o in told["origins"]] == [("O", 2), ("P", 1)]
        assert told["totals"] == [{"basis": "input", "rows": 700, "known": 2, "unknown": 1}]
        assert not Path(".ledger").exists()

    def test_a_document_that_is_not_what_its_revision_says_is_refused(self, run, tmp_path):
        got = run("catalogue", "validate", document(tmp_path / "c.json", revision="0" * 64), "--json")

        assert got.code == 1
        (problem,) = got.error["problems"]
        assert problem["place"].endswith("c.json#/revision")
        assert catalogue_digest(SOURCES) in problem["message"]


class TestPublishing:
    def test_a_refresh_names_the_revision_that_the_document_bears(self, published):
        found = versions(published)

        assert {v["origin"] for v in found} == {"O", "P"}
        assert {v["revision"] for v in found} == {catalogue_digest(SOURCES)}
        assert {v["status"] for v in found} == {"present"}
        assert shown(published, "O:one")["input_rows"] == 700

    def test_without_a_base_it_is_refused_with_the_present_one(self, published, tmp_path):
        got = published("catalogue", "publish", document(tmp_path / "c.json"), "--json")

        assert got.code == 2
        assert all(f"--base '{origin}={present(published, origin)}'" in got.error["remedy"] for origin in ("O", "P"))

    @pytest.mark.parametrize("by", ["base", "revision"])
    def test_the_base_is_named_by_its_id_or_by_its_revision(self, published, tmp_path, by):
        bases = {v["origin"]: v[by] for v in versions(published)}
        file = document(tmp_path / "c.json", revised("O:one", family="other"))

        got = published(
            "catalogue", "publish", file, "--base", f"O={bases['O']}", "--base", f"P={bases['P']}", "--json"
        )

        assert got.json["recorded"] == 2
        assert shown(published, "O:one")["family"] == "other"
        (now, past) = versions(published, "--origin", "O")
        assert (now["status"], now["replaces"], past["status"]) == ("present", past["base"], "past")

    def test_one_revision_is_the_base_of_all_origins_that_share_it(self, published, tmp_path):
        file = document(tmp_path / "c.json", revised("P:three", family="other"))

        got = published("catalogue", "publish", file, "--base", catalogue_digest(SOURCES), "--json")

        assert got.json["recorded"] == 2

    def test_a_stale_base_is_refused_with_who_changed_what_since(self, published, tmp_path):
        base = present(published)
        other = document(
            tmp_path / "other.json", [s for s in revised("O:one", family="x", task_count=701) if s["id"] != "O:two"]
        )
        assert (
            published(
                "catalogue",
                "publish",
                other,
                "--base",
                f"O={base}",
                "--base",
                f"P={present(published, 'P')}",
                "--actor",
                "they",
            ).code
            == 0
        )
        before = shown(published, "P:three")["size"]
        mine = document(tmp_path / "mine.json", revised("O:two", family="mine"))

        got = published(
            "catalogue", "publish", mine, "--base", f"O={base}", "--base", f"P={present(published, 'P')}", "--json"
        )

        assert got.code == 5
        assert got.error["reason"] == "CONDITION_FAILED"
        assert present(published) in got.error["remedy"]
        told = {p["place"]: p["message"] for p in got.error["problems"]}
        assert told["source/O:one"] == "revised: counts, family, input_rows"
        assert told["source/O:two"] == "retired"
        (refresh,) = [m for place, m in told.items() if place.startswith("origin/O")]
        assert refresh.startswith(
            f"they published revision {catalogue_digest(json.loads(other.read_text())['sources'])}"
        )
        assert shown(published, "P:three")["size"] == before

    def test_a_large_refresh_hides_no_later_one(self, run, tmp_path):
        many = [SOURCES[1] | {"id": f"O:{number:02}"} for number in range(refreshes.MAX_TOLD + 3)]
        assert run("catalogue", "publish", document(tmp_path / "many.json", many), "--base", "none").code == 0
        assert run("catalogue", "retire", "O:00", "--reason", "gone").code == 0

        got = run("catalogue", "publish", document(tmp_path / "more.json"), "--base", "none", "--json")

        told = [(problem["place"], problem["message"]) for problem in got.error["problems"]]
        assert got.code == 5
        assert ("origin/O", "… and 3 more sources") in told
        assert told[-1] == ("source/O:00", "retired")

    def test_every_stale_base_is_told_at_once(self, published, tmp_path):
        changed = [source | {"family": "x"} for source in SOURCES]
        file = document(tmp_path / "c.json", changed)
        assert published("catalogue", "publish", file, "--base", catalogue_digest(SOURCES)).code == 0

        got = published("catalogue", "publish", document(tmp_path / "d.json"), "--base", "none", "--json")

        assert got.code == 5
        assert "O was refreshed 2 times since it had no refresh" in got.error["message"]
        assert "P was refreshed 2 times" in got.error["message"]

    def test_what_was_published_before_another_origin_was_overtaken_is_not_called_stale(self, run, tmp_path):
        with in_process(Settings(home=tmp_path / "home")) as address, connect(address) as connection:
            reader, writer = Reader(connection), Writer(connection)
            file = document(tmp_path / "c.json")
            mine = plan_import(read_inventory(file), {}, by=actor("me"), partial=False, base={})
            writer.publish(mine[0])
            assert run("catalogue", "import", _line(tmp_path / "p.jsonl", "p", "P"), "--address", address).code == 0
            with pytest.raises(LedgerError) as refused:
                writer.publish(mine[1])

            own = {publication.closing.id for publication in mine}
            told = refreshes.overtaken(reader, refused.value, {"O": None, "P": None}, own)

        assert told.message == "the base is stale: P was refreshed once since it had no refresh"

    def test_a_base_that_never_was_is_refused(self, published, tmp_path):
        got = published("catalogue", "publish", document(tmp_path / "c.json"), "--base", "no-such", "--json")

        assert (got.code, got.error["reason"]) == (5, "CONDITION_FAILED")

    def test_publishing_the_same_again_upon_the_same_base_is_a_repetition(self, published, tmp_path):
        bases = [f"{o}={present(published, o)}" for o in ("O", "P")]
        file = document(tmp_path / "c.json", revised("O:one", family="other"))
        command = ["catalogue", "publish", file, "--base", bases[0], "--base", bases[1], "--json"]
        first = published(*command).json

        again = published(*command).json

        assert (again["recorded"], again["already_recorded"]) == (0, 2)
        assert [e["pos"] for e in again["events"]] == [e["pos"] for e in first["events"]]

    def test_what_equals_the_ledger_appends_nothing_unless_it_is_forced(self, published, tmp_path):
        file = document(tmp_path / "c.json")
        base = catalogue_digest(SOURCES)
        assert published("catalogue", "publish", file, "--base", base, "--json").json["events"] == []

        forced = published("catalogue", "publish", file, "--base", base, "--force", "--json").json

        assert [e["type"] for e in forced["events"]] == ["catalogue.synced"] * 2
        now = versions(published)[0]
        assert (now["forced"], now["row_count"], now["counts"]["unchanged"]) == (True, 1, 1)
        assert "forced" in published("catalogue", "versions").out

    def test_a_dry_run_judges_the_base_and_appends_nothing(self, published, tmp_path):
        base = catalogue_digest(SOURCES)
        file = document(tmp_path / "c.json", revised("O:one", family="other"))

        planned = published("catalogue", "publish", file, "--base", base, "--dry-run", "--json").json

        assert [e["type"] for e in planned["events"]] == ["source.revised", "catalogue.synced"]
        assert shown(published, "O:one")["family"] == "math"
        assert published("catalogue", "publish", file, "--base", "none", "--dry-run").code == 5

    def test_row_13_one_of_several_who_publish_upon_one_base_wins_and_the_others_hear_of_it(self, run, tmp_path):
        with in_process(Settings(home=tmp_path / "home")) as address:
            on_it = partial(run, "--address", address)
            assert on_it("catalogue", "import", _line(tmp_path / "first.jsonl", "first")).code == 0
            base = present(on_it)
            outcomes: list[str] = []
            start = threading.Barrier(4)

            def publish(number: int) -> None:
                start.wait(timeout=60)
                outcomes.append(_outcome(address, _line(tmp_path / f"{number}.jsonl", f"family-{number}"), base))

            threads = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(timeout=120)

            assert sorted(outcomes) == ["CONDITION_FAILED"] * 3 + ["won"]
            assert [v["status"] for v in versions(on_it)] == ["present", "past"]

    def test_a_refresh_that_another_one_overtook_is_told_as_stale(self, run, tmp_path):
        """The window between the check and the append: the server refuses, and the refusal is put into words."""
        with in_process(Settings(home=tmp_path / "home")) as address, connect(address) as connection:
            assert run("catalogue", "import", _line(tmp_path / "a.jsonl", "a"), "--address", address).code == 0
            reader, writer = Reader(connection), Writer(connection)
            bases = {"O": refreshes.present_base(reader, "O").id}
            mine, theirs = (
                plan_import(
                    read_inventory(_line(tmp_path / f"{n}.jsonl", n)), {}, by=actor(n), partial=True, base=bases
                )
                for n in ("mine", "theirs")
            )
            writer.publish(theirs[0])
            with pytest.raises(LedgerError) as refused:
                writer.publish(mine[0])

            told = refreshes.overtaken(reader, refused.value, bases)

        assert told.reason == "CONDITION_FAILED"
        assert "the base is stale: O was refreshed once" in told.message
        assert any("theirs published" in p.message for p in told.problems)

    def test_a_refusal_for_another_reason_stays_what_it_is(self, own):
        error = InvalidInput("something else")

        assert refreshes.overtaken(None, error, {"O": None}) is error


def _line(path: Path, family: str, origin: str = "O") -> Path:
    path.write_text(json.dumps({"id": f"{origin}:one", "origin": origin, "family": family}) + "\n")
    return path


def _outcome(address: str, file: Path, base: str) -> str:
    """What becomes of one of several publishers, each of whom runs the command's own functions in a thread."""
    arguments = ["catalogue", "publish", str(file), "--base", base, "--address", address, "--quiet"]
    try:
        cli.main(arguments, standalone_mode=False, obj=State())
    except LedgerError as error:
        return error.reason
    return "won"


class TestFailures:
    def test_row_33_an_unsound_file_is_recorded_as_a_failed_refresh_and_the_inventory_stays(self, published, tmp_path):
        file = document(tmp_path / "bad.json", revision="f" * 64)

        got = published("catalogue", "publish", file, "--base", "none")

        assert got.code == 1
        failed = [v for v in versions(published) if v["status"] == "failed"]
        assert {v["origin"] for v in failed} == {"O", "P"}
        assert {v["revision"] for v in failed} == {"f" * 64}
        assert {v["base"] for v in failed} == {None}
        assert "bad.json#/revision" in failed[0]["error"]
        assert str(tmp_path) not in failed[0]["error"]
        assert shown(published, "O:one")["input_rows"] == 700
        assert present(published) in [v["base"] for v in versions(published)]

    def test_a_file_that_cannot_be_read_is_recorded_for_the_origin_that_is_named(self, published, tmp_path):
        got = published("catalogue", "publish", tmp_path / "absent.json", "--base", "none", "--origin", "O", "--json")

        assert got.code == 1
        assert "cannot be read" in versions(published)[0]["error"]

    def test_without_any_origin_the_failure_is_told_and_not_recorded(self, published, tmp_path):
        before = len(versions(published))

        got = published("catalogue", "publish", tmp_path / "absent.json", "--base", "none")

        assert got.code == 1
        assert "--origin" in got.err
        assert len(versions(published)) == before

    @pytest.mark.parametrize("flag", ["--no-record-failure", "--dry-run"])
    def test_a_failure_is_not_recorded_when_that_is_not_wanted(self, published, tmp_path, flag):
        file = document(tmp_path / "bad.json", revision="f" * 64)

        assert published("catalogue", "publish", file, "--base", "none", flag).code == 1
        assert {v["status"] for v in versions(published)} == {"present"}

    def test_a_file_of_another_origin_than_was_named_is_refused(self, published, tmp_path):
        got = published(
            "catalogue", "publish", document(tmp_path / "c.json"), "--base", "none", "--origin", "O", "--json"
        )

        assert (got.code, got.error["reason"]) == (1, "INVALID_FILE")
        assert "P" in got.error["message"]


class TestExporting:
    def test_an_export_of_what_was_published_is_the_same_document(self, published, tmp_path):
        written = json.loads(published("catalogue", "export").out)

        assert written == {"schema_version": 1, "revision": catalogue_digest(SOURCES), "sources": SOURCES}

    def test_an_export_publishes_nothing_and_can_be_published_again(self, published, tmp_path):
        file = tmp_path / "export.json"
        assert published("catalogue", "export", "--output", file).code == 0

        again = published("catalogue", "publish", file, "--base", catalogue_digest(SOURCES), "--json").json

        assert again["events"] == []

    def test_row_2_an_export_of_a_past_moment_is_the_document_of_then(self, published, tmp_path):
        size = shown(published, "O:one")["size"]
        changed = revised("O:one", family="other")
        assert (
            published(
                "catalogue", "publish", document(tmp_path / "c.json", changed), "--base", catalogue_digest(SOURCES)
            ).code
            == 0
        )

        then = json.loads(published("catalogue", "export", "--at", size).out)
        now = json.loads(published("catalogue", "export").out)

        assert then["revision"] == catalogue_digest(SOURCES)
        assert now["revision"] == catalogue_digest(changed)

    def test_an_export_of_one_origin_has_the_revision_of_its_rows(self, published):
        written = json.loads(published("catalogue", "export", "--origin", "P").out)

        assert written["sources"] == SOURCES[2:]
        assert written["revision"] == catalogue_digest(SOURCES[2:])

    def test_an_export_names_the_bases_of_what_is_made_from_it(self, published):
        told = published("catalogue", "export").err

        assert all(f"--base '{origin}={present(published, origin)}'" in told for origin in ("O", "P"))

    def test_an_export_whose_file_cannot_be_written_leaves_none(self, published, tmp_path):
        assert published("catalogue", "export", "--output", tmp_path / "absent" / "x.json").code == 2
        assert published("catalogue", "export", "--output", tmp_path).code == 2
        assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []

    def test_a_line_inventory_survives_an_export_too(self, own, tmp_path):
        file = tmp_path / "export.json"
        assert own("catalogue", "export", "--output", file).code == 0

        assert own("catalogue", "import", file, "--json").json["events"] == []


class TestSingleSources:
    def test_a_retired_source_is_gone_and_the_others_stay_and_it_comes_back_as_it_was(self, published):
        before = shown(published, "O:one")
        assert published("catalogue", "retire", "O:one", "--reason", "Withdrawn.").code == 0
        assert shown(published, "O:one")["retired"] is True
        assert shown(published, "O:two")["retired"] is False
        assert versions(published)[0]["row_count"] == 1

        assert published("catalogue", "reinstate", "O:one").code == 0

        after = shown(published, "O:one")
        assert (after["retired"], after["row_sha256"]) == (False, before["row_sha256"])
        assert [(v["partial"], v["row_count"]) for v in versions(published)[:2]] == [(True, 2), (True, 1)]

    def test_the_reason_of_a_retirement_is_recorded(self, published):
        (part, _) = published("catalogue", "retire", "O:one", "--reason", "Withdrawn.", "--json").json["events"]

        assert published("event", "show", part["id"], "--content", "--json").json["payload"]["reason"] == "Withdrawn."

    def test_a_dry_run_tells_what_would_become_of_the_source_and_changes_nothing(self, published, tmp_path):
        file = _parquet(tmp_path / "snapshots" / REVISION / "train.parquet", 3)
        counting = ["count", file, "--source", "O:one", "--revision", REVISION, "--record"]

        for command in (["retire", "O:one", "--reason", "x"], counting):
            planned = published("catalogue", *command, "--dry-run", "--json").json
            assert [e["type"] for e in planned["events"]][-1] == "catalogue.synced"

        assert len(versions(published)) == 2
        assert shown(published, "O:one")["retired"] is False

    def test_what_is_retired_is_not_retired_again_and_what_is_listed_is_not_reinstated(self, published):
        assert published("catalogue", "reinstate", "O:one").code == 5
        assert published("catalogue", "retire", "O:one", "--reason", "Withdrawn.").code == 0
        assert published("catalogue", "retire", "O:one", "--reason", "Withdrawn.").code == 5
        assert published("catalogue", "retire", "O:one", "--reason", "").code == 2
        assert published("catalogue", "retire", "O:none", "--reason", "x").code == 4


class TestCounting:
    def test_a_recorded_count_replaces_the_one_of_its_basis_and_no_other(self, published, tmp_path):
        file = _parquet(tmp_path / "snapshots" / REVISION / "main" / "train.parquet", 7473)
        command = ["catalogue", "count", file, "--source", "O:one", "--revision", REVISION, "--record"]
        assert published(*command, "--basis", "released").code == 0
        assert published(*command).code == 0

        row = json.loads(published("catalogue", "export", "--origin", "O").out)["sources"][0]

        assert [(c["basis"], c["rows"], c["revision"]) for c in row["counts"]] == [
            ("input", 7473, REVISION),
            ("released", 7473, REVISION),
        ]
        assert row["task_count"] == 700
        evidence = json.loads(published("artifact", "get", row["counts"][0]["evidence"]["sha256"]).out)
        assert [(f["file"], f["rows"], f["revision_checked_by"]) for f in evidence["files"]] == [
            ("main/train.parquet", 7473, "download")
        ]
        assert published(*command, "--json").json["events"] == []

    def test_a_count_is_told_without_being_recorded(self, published, tmp_path):
        file = _parquet(tmp_path / "snapshots" / REVISION / "train.parquet", 3)

        told = published("catalogue", "count", file, file, "--source", "O:one", "--revision", REVISION, "--json")

        assert (told.json["rows"], told.json["repeated"]) == (3, ["train.parquet"])
        assert "count once" in told.err
        assert versions(published)[0]["partial"] is False

    def test_a_file_of_unknown_revision_is_refused_and_taken_unchecked_as_unknown(self, published, tmp_path):
        file = _parquet(tmp_path / "train.parquet", 3)
        command = ["catalogue", "count", file, "--source", "O:one", "--revision", REVISION, "--json"]

        assert published(*command).error["reason"] == "INVALID_FILE"
        assert published(*command, "--revision-unchecked").json["revision"] is None


def _parquet(path: Path, rows: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"question": [str(n) for n in range(rows)]}), path)
    return path


class TestHostileText:
    HOSTILE = "\x1b[31mred\x1b[0m \u202etxet"

    def test_what_was_recorded_steers_no_terminal(self, published, tmp_path):
        row = {"id": "H:one", "origin": "H", "display_name": self.HOSTILE, "notes": self.HOSTILE}
        assert published("catalogue", "publish", document(tmp_path / "h.json", [row]), "--base", "none").code == 0
        bad = document(tmp_path / "bad.json", [row], revision=self.HOSTILE)
        assert published("catalogue", "publish", bad, "--base", "none").code == 1
        unresolved = ["--status", "unresolved", "--applicability", "unknown", "--note", self.HOSTILE]
        assert published("catalogue", "alias", "map", "x", *unresolved).code == 0
        assert published("catalogue", "retire", "H:one", "--reason", self.HOSTILE).code == 0

        for command in (["versions"], ["versions", "--json"], ["alias", "list"], ["export"], ["validate", bad]):
            got = published("catalogue", *command)
            assert "\x1b" not in got.out + got.err
            assert "\u202e" not in got.out + got.err


class TestAliases:
    def test_a_name_means_what_its_latest_mapping_says(self, published, tmp_path):
        card = tmp_path / "card.md"
        card.write_text("trained on O:one")
        confirmed = ["--status", "confirmed", "--applicability", "historical", "--evidence", card]
        assert (
            published(
                "catalogue",
                "alias",
                "map",
                "org/set",
                "--source",
                "O:one",
                "--source",
                "O:two",
                "--status",
                "ambiguous",
                "--applicability",
                "unknown",
            ).code
            == 0
        )
        size = shown(published, "O:one")["size"]
        assert published("catalogue", "alias", "map", "org/set", "--source", "O:one", *confirmed).code == 0

        (now,) = published("catalogue", "alias", "list", "--json").json
        (then,) = published("catalogue", "alias", "list", "--at", size, "--json").json

        assert (now["alias"], now["status"], now["source_ids"]) == ("org/set", "confirmed", ["O:one"])
        assert published("artifact", "get", now["evidence"][0]["sha256"]).out == "trained on O:one"
        assert then["status"] == "ambiguous"
        assert "org/set" in published("catalogue", "alias", "list").out
        assert published("catalogue", "alias", "list", "--source", "O:two", "--json").json == []

    def test_a_disregarded_mapping_counts_for_nothing_and_can_be_made_again(self, published):
        def mapped_to(*sources):
            flags = [flag for source in sources for flag in ("--source", source)]
            ambiguous = ["--status", "ambiguous", "--applicability", "unknown"]
            assert published("catalogue", "alias", "map", "org/set", *flags, *ambiguous).code == 0

        def meant():
            return [alias["source_ids"] for alias in published("catalogue", "alias", "list", "--json").json]

        mapped_to("O:one")
        mapped_to("O:one", "O:two")
        (last,) = published("log", "tail", "-n", 1, "--json").json
        assert published("event", "disregard", last["pos"], "--reason", "a slip", "--yes").code == 0
        assert meant() == [["O:one"]]
        mapped_to("O:one", "O:two")
        assert meant() == [["O:one", "O:two"]]

    def test_mapping_a_name_as_it_is_mapped_appends_nothing(self, published):
        command = [
            "catalogue",
            "alias",
            "map",
            "org/set",
            "--status",
            "unresolved",
            "--applicability",
            "unknown",
            "--json",
        ]
        assert published(*command).json["recorded"] == 1

        assert published(*command).json["events"] == []

    @pytest.mark.parametrize(
        ("flags", "place"),
        [
            (["--status", "confirmed", "--applicability", "unknown", "--source", "O:one"], "/evidence"),
            (["--status", "confirmed", "--applicability", "unknown"], "/source_ids"),
            (["--status", "unresolved", "--applicability", "unknown", "--source", "O:one"], "/source_ids"),
            (["--status", "unresolved", "--applicability", "historical"], "/applicability"),
        ],
    )
    def test_a_mapping_that_contradicts_its_status_is_refused_with_the_place(self, published, flags, place):
        error = published("catalogue", "alias", "map", "org/set", *flags, "--json").error

        assert error["reason"] == "USAGE"
        assert place in [p["place"] for p in error["problems"]]
        assert published("catalogue", "alias", "list", "--json").json == []

    def test_a_source_that_nobody_lists_is_noted_and_the_fact_is_recorded(self, published):
        got = published(
            "catalogue",
            "alias",
            "map",
            "x",
            "--source",
            "O:none",
            "--status",
            "ambiguous",
            "--applicability",
            "unknown",
        )

        assert got.code == 0
        assert "no such source" in got.err
