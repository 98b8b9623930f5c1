"""What the Atlas page says of the source inventory and its refreshes, on the real one, asked through both doors."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ledger.client import actor
from ledger.client.catalogue import plan_import, read_inventory
from ledger.core.errors import LedgerError
from services.cli import catalogue_state, refreshes
from services.cli.demo_plan import INVENTORY
from tests.acceptance.conftest import ROWS
from tests.acceptance.curated import Curated
from tests.acceptance.doors import CURATOR, Doors, rules_of

SVAMP = "MarinSkyRL:svamp"


@pytest.fixture
def inventory(tmp_path: Path) -> Any:
    """Writes an inventory and gives its path."""

    def write(rows: Iterable[dict[str, Any]]) -> Path:
        path = tmp_path / "inventory.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


def changed(source_id: str, **fields: Any) -> list[dict[str, Any]]:
    """The real inventory with other fields in one row."""
    return [row | fields if row["id"] == source_id else row for row in ROWS]


class TestTheInventory:
    def test_the_saved_inventory_is_listed_whole_by_origin_then_id(self, untouched: Doors) -> None:
        listed = untouched.listed()

        assert [s["id"] for s in listed] == [r["id"] for r in sorted(ROWS, key=lambda r: (r["origin"], r["id"]))]
        assert len(listed) == 196

    def test_what_the_rows_say_is_shown_and_what_they_do_not_say_is_unknown(self, untouched: Doors) -> None:
        rows = {row["id"]: row for row in ROWS}
        names = ("origin", "name", "family", "dataset_id", "dataset_revision", "revision", "verifier_revision", "url",
                 "atlas_status", "intended_use", "is_benchmark")  # fmt: skip

        for source in untouched.listed():
            row = rows[source["id"]]
            assert {n: source[n] for n in names} == {n: row.get(n) for n in names}

    def test_unknown_counts_stay_unknown(self, doors: Doors, inventory: Any) -> None:
        assert {s["input_rows"] for s in doors.listed()} == {None}

        doors.record("catalogue", "import", inventory(changed(SVAMP, input_rows=0)))

        assert doors.shown(SVAMP)["input_rows"] == 0
        assert doors.shown("MarinSkyRL:gsm8k")["input_rows"] is None

    def test_excluded_sources_are_listed_and_say_so(self, untouched: Doors) -> None:
        excluded = untouched.listed("--status", "Excluded", atlas_statuses=["Excluded"])

        assert len(excluded) == 50
        assert {s["id"] for s in excluded} <= {s["id"] for s in untouched.listed()}

    def test_the_tabs_identify_source_origins(self, untouched: Doors) -> None:
        assert len(untouched.listed("--origin", "MarinSkyRL", origins=["MarinSkyRL"])) == 103
        assert len(untouched.listed("--origin", "Task Trove", origins=["Task Trove"])) == 93

    def test_the_table_is_searched_and_filtered(self, untouched: Doors) -> None:
        assert SVAMP in {s["id"] for s in untouched.listed("--search", "sVaMp", search="sVaMp")}
        family = untouched.listed("--family", "swe-repo", "--family", "tool-use", families=["swe-repo", "tool-use"])
        assert len(family) == sum(row["family"] in {"swe-repo", "tool-use"} for row in ROWS)

    def test_before_the_first_import_there_was_no_source(self, untouched: Doors) -> None:
        assert untouched.listed(at=5) == []
        untouched.not_shown(SVAMP, at=5)


class TestRefreshes:
    def test_an_inventory_equal_to_the_saved_one_appends_nothing_and_says_so(self, doors: Doors) -> None:
        size = doors.size

        again = doors.tell("catalogue", "import", INVENTORY)

        assert (again["recorded"], again["events"], doors.size) == (0, [], size)
        assert "Nothing to append" in doors.run("catalogue", "import", INVENTORY).err

    def test_refreshes_retire_removed_sources_and_retain_their_historical_review_records(
        self, svamp: Curated, inventory: Any
    ) -> None:
        review = svamp.review()
        before = svamp.doors.size

        svamp.doors.record("catalogue", "import", inventory(r for r in ROWS if r["id"] != SVAMP))

        assert SVAMP not in {s["id"] for s in svamp.doors.listed()}
        retired = next(s for s in svamp.doors.listed("--retired", include_retired=True) if s["id"] == SVAMP)
        assert (retired["retired"], retired["quality"], retired["review"]["id"]) == (True, "good", review)
        assert rules_of(retired, "catalogue") == ["catalogue.retired"]
        assert svamp.shown(at=before)["retired"] is False
        assert SVAMP in {s["id"] for s in svamp.doors.listed(at=before)}

    def test_refreshes_preserve_quality_difficulty_and_traces_of_surviving_ids(
        self, svamp: Curated, inventory: Any
    ) -> None:
        svamp.review(tasks=2)
        svamp.measure()
        before = svamp.shown()

        svamp.doors.record("catalogue", "import", inventory(changed(SVAMP, family="word-problems", name="SVAMP")))

        after = svamp.shown()
        assert (after["family"], after["name"]) == ("word-problems", "SVAMP")
        for curated in ("quality", "review", "difficulty", "applicability"):
            assert after[curated] == before[curated]
        assert (after["quality"], after["difficulty"]["status"]) == ("good", "current")

    def test_a_refresh_with_another_revision_hides_what_covers_the_former_one(
        self, svamp: Curated, inventory: Any
    ) -> None:
        review = svamp.review()
        before = svamp.doors.size

        svamp.doors.record("catalogue", "import", inventory(changed(SVAMP, dataset_revision="e" * 40)))

        assert (svamp.quality(at=before), svamp.quality()) == ("good", "needs_re_review")
        assert svamp.shown()["review"]["id"] == review

    def test_a_file_is_the_whole_of_each_origin_that_it_names_and_says_nothing_of_others(
        self, doors: Doors, inventory: Any
    ) -> None:
        trove = [row for row in ROWS if row["origin"] == "Task Trove"]

        doors.record("catalogue", "import", inventory(trove[:-1]))

        assert len(doors.listed()) == 195
        assert len(doors.listed("--origin", "MarinSkyRL", origins=["MarinSkyRL"])) == 103

    def test_a_partial_file_retires_nothing(self, doors: Doors, inventory: Any) -> None:
        doors.record("catalogue", "import", inventory([ROWS[0] | {"family": "elsewhere"}]), "--partial")

        assert len(doors.listed()) == 196
        assert doors.shown(ROWS[0]["id"])["family"] == "elsewhere"

    def test_a_removed_source_that_is_listed_again_is_reinstated_with_its_reviews(
        self, svamp: Curated, inventory: Any
    ) -> None:
        review = svamp.review()
        svamp.doors.record("catalogue", "import", inventory(r for r in ROWS if r["id"] != SVAMP))
        retired = svamp.doors.size
        svamp.doors.refused("review", "publish", svamp.run_of(), code=5, reason="REFUSED_BY_RULES")

        svamp.doors.record("catalogue", "import", INVENTORY)

        assert svamp.shown(at=retired)["retired"] is True
        assert (svamp.shown()["retired"], svamp.quality(), svamp.shown()["review"]["id"]) == (False, "good", review)
        assert rules_of(svamp.shown(), "catalogue") == ["catalogue.reinstated"]


class TestAFailedImport:
    def test_changes_nothing_since_the_whole_file_is_validated_before_any_row_changes(
        self, doors: Doors, inventory: Any
    ) -> None:
        path = inventory([*changed(SVAMP, family="elsewhere"), {"id": "MarinSkyRL:new"}])

        error = doors.refused("catalogue", "import", path, code=1, reason="INVALID_FILE")

        assert [p["place"] for p in error["problems"]] == [f"{path}:197"]
        assert doors.shown(SVAMP)["family"] == "math-answer"
        assert len(doors.listed()) == 196

    def test_that_is_cut_short_shows_no_part_of_itself(self, doors: Doors, inventory: Any) -> None:
        rows = read_inventory(inventory(r | {"family": "elsewhere"} for r in ROWS))
        (first, _) = planned(doors, rows)

        doors.writer.append(first.parts)

        assert {s["family"] for s in doors.listed()} == {row["family"] for row in ROWS}
        doors.writer.append([first.closing])
        assert {s["family"] for s in doors.listed("--origin", "MarinSkyRL", origins=["MarinSkyRL"])} == {"elsewhere"}

    def test_that_another_refresh_overtook_is_refused_and_says_to_import_again(
        self, doors: Doors, inventory: Any
    ) -> None:
        mine = planned(doors, read_inventory(inventory(changed(SVAMP, family="mine"))))
        doors.record("catalogue", "import", inventory(changed(SVAMP, family="theirs")))
        before = doors.size

        with pytest.raises(LedgerError, match="import again") as refused:
            doors.writer.publish(mine[0])

        assert refused.value.reason == "REFUSED_BY_RULES"
        assert [p.place for p in refused.value.problems] == ["/replaces"]
        assert doors.size == before
        assert doors.shown(SVAMP)["family"] == "theirs"


def planned(doors: Doors, rows: Any) -> list[Any]:
    """An import as it is planned on what the ledger lists now."""
    origins = {row.origin for row in rows}
    return plan_import(
        rows,
        catalogue_state.current_sources(doors.reader, origins, doors.size),
        by=actor(CURATOR[1]),
        partial=False,
        base={origin: refreshes.present_base(doors.reader, origin).id for origin in origins},
    )
