"""What an inventory's file may hold, and what an import makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ledger.client import actor
from ledger.client.catalogue import (
    CurrentSource,
    InventoryRevision,
    catalogue_digest,
    inventory_artifact,
    plan_import,
    plan_revision,
    read_inventory,
    row_digest,
)
from ledger.client.drafts import Publication
from ledger.core.errors import InvalidInput
from ledger.core.ids import ids_digest, sha256_hex
from ledger.events import REGISTRY
from ledger.events.catalogue import CatalogueRow

VECTORS = Path(__file__).parent.parent / "vectors" / "inventories"
BAD = json.loads((VECTORS / "expected.json").read_text())
ME = actor("curator-1", "human")


def row(name: str, **said: Any) -> CatalogueRow:
    return CatalogueRow(id=f"MarinSkyRL:{name}", origin="MarinSkyRL", **said)


def listed(*rows: CatalogueRow) -> dict[str, CurrentSource]:
    return {r.id: CurrentSource(row_digest(r), r.origin, retired=False) for r in rows}


def retired(*rows: CatalogueRow) -> dict[str, CurrentSource]:
    return {r.id: CurrentSource(row_digest(r), r.origin, retired=True) for r in rows}


def planned(
    rows: list[CatalogueRow],
    current: Mapping[str, CurrentSource],
    *,
    partial: bool = False,
    base: str | None = "synced-1",
    **more: Any,
) -> list[Publication]:
    return plan_import(rows, current, by=ME, partial=partial, base={"MarinSkyRL": base}, **more)


def said(publication: Publication) -> list[tuple[str, str]]:
    return [(d.type, d.stream) for d in publication.parts]


def closing(publication: Publication) -> dict[str, Any]:
    assert publication.closing is not None
    return json.loads(publication.closing.payload)


class TestReading:
    @pytest.mark.parametrize("name", sorted(p.name for p in (VECTORS / "bad").iterdir()))
    def test_a_bad_inventory_is_refused_with_every_bad_line(self, name: str) -> None:
        path = VECTORS / "bad" / name

        with pytest.raises(InvalidInput) as refused:
            read_inventory(path)

        assert refused.value.reason == "INVALID_FILE"
        assert refused.value.remedy
        assert {f"{path}{place}" for place in BAD[name]} == {p.place for p in refused.value.problems}
        for place, words in BAD[name].items():
            assert any(words in p.message for p in refused.value.problems if p.place == f"{path}{place}")

    def test_every_bad_inventory_is_expected(self) -> None:
        assert {p.name for p in (VECTORS / "bad").iterdir()} == BAD.keys()

    def test_a_file_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="cannot be read") as refused:
            read_inventory(tmp_path / "absent.jsonl")

        assert refused.value.reason == "INVALID_FILE"

    def test_keys_without_a_field_are_kept_as_they_were_and_nulls_say_nothing(self) -> None:
        svamp, taco = read_inventory(VECTORS / "good" / "two-origins.jsonl")

        assert svamp.extra == {"turns": "Single-turn", "count_basis": {"rows": 700, "exact": True}}
        assert (svamp.input_rows, svamp.tags, svamp.notes) == (700, ["license:mit"], None)
        assert (taco.id, taco.display_name) == ("Task Trove:laion__exp_rpt_taco-v2", "a · b")

    def test_an_id_of_500_characters_is_taken(self, tmp_path: Path) -> None:
        path = tmp_path / "long.jsonl"
        path.write_text(json.dumps({"id": "i" * 500, "origin": "o" * 505}))

        assert len(read_inventory(path)) == 1


class TestDigests:
    def test_the_digest_of_no_rows_is_the_atlas_one(self) -> None:
        assert catalogue_digest([]) == "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"

    def test_the_digest_of_rows_is_the_atlas_one_in_any_order(self) -> None:
        rows = [
            {"id": "MarinSkyRL:svamp", "origin": "MarinSkyRL", "task_count": 700},
            {
                "id": "Task Trove:laion__exp_rpt_taco-v2",
                "origin": "Task Trove",
                "task_count": 10000,
                "display_name": "a · b",
            },
        ]
        golden = "37ec6c5b4cc1f965f99c2de57b41706d845df9709a457e8559900e245753714d"

        assert catalogue_digest(rows) == golden
        assert catalogue_digest(reversed(rows)) == golden

    def test_a_row_s_digest_changes_with_anything_that_it_says(self) -> None:
        same = row("svamp", extra={"turns": "Single-turn"})

        assert row_digest(same) == row_digest(CatalogueRow.model_validate_json(same.model_dump_json()))
        assert row_digest(same) != row_digest(row("svamp"))
        assert row_digest(same) != row_digest(row("svamp", extra={"turns": "Multi-turn"}))

    def test_a_row_s_digest_is_this_one_for_ever(self) -> None:
        assert row_digest(row("svamp")) == "f76a07e84b4d13e97af58a6fc10f88c86d49d3bd9d494c4dfb0a87a166265a57"

    def test_the_sync_bears_the_digest_of_its_origin_s_rows_as_listed(self) -> None:
        [marin, _] = plan_import(
            read_inventory(VECTORS / "good" / "two-origins.jsonl"), {}, by=ME, partial=False, base={}
        )
        [line] = [json.loads(s) for s in (VECTORS / "good" / "two-origins.jsonl").read_text().splitlines()[:1]]
        del line["notes"]

        assert closing(marin)["revision"] == catalogue_digest([line])


class TestImports:
    def test_each_origin_of_the_file_is_a_publication_of_its_own_closed_last(self) -> None:
        rows = read_inventory(VECTORS / "good" / "two-origins.jsonl")

        marin, trove = plan_import(rows, {}, by=ME, partial=False, base={})

        assert said(marin) == [("source.declared", "source/MarinSkyRL:svamp")]
        assert said(trove) == [("source.declared", "source/Task Trove:laion__exp_rpt_taco-v2")]
        assert [p.closing and p.closing.stream for p in (marin, trove)] == ["origin/MarinSkyRL", "origin/Task Trove"]

    def test_new_changed_absent_and_returning_sources_each_have_their_event(self) -> None:
        current = {**listed(row("changed"), row("gone"), row("same")), **retired(row("back"))}
        rows = [row("same"), row("new"), row("changed", split="train"), row("back")]

        [publication] = planned(rows, current)

        assert said(publication) == [
            ("source.reinstated", "source/MarinSkyRL:back"),
            ("source.revised", "source/MarinSkyRL:changed"),
            ("source.retired", "source/MarinSkyRL:gone"),
            ("source.declared", "source/MarinSkyRL:new"),
        ]
        assert closing(publication)["counts"] == dict.fromkeys(
            ("declared", "revised", "retired", "reinstated", "unchanged"), 1
        )
        assert closing(publication)["row_count"] == 4
        assert json.loads(publication.parts[2].payload)["reason"]

    def test_the_closing_event_names_its_parts_what_it_replaces_and_joins_them(self) -> None:
        [publication] = planned([row("new"), row("newer")], {})
        ids = [d.id for d in publication.parts]

        assert closing(publication)["parts"] == {"count": 2, "digest": ids_digest(ids), "ids": ids}
        assert closing(publication)["replaces"] == "synced-1"
        assert {json.loads(d.payload)["collection"] for d in publication.drafts} == {closing(publication)["collection"]}
        assert all(f"collection:{closing(publication)['collection']}" in d.tags for d in publication.drafts)

    def test_an_import_equal_to_the_present_state_plans_nothing(self) -> None:
        rows = [row("svamp", input_rows=700), row("gsm8k")]

        assert planned(rows, {**listed(*rows), **retired(row("long-gone"))}) == []

    def test_only_the_origin_that_changed_is_planned(self) -> None:
        rows = read_inventory(VECTORS / "good" / "two-origins.jsonl")

        [publication] = plan_import(rows, listed(rows[0]), by=ME, partial=False, base={})

        assert closing(publication)["origin"] == "Task Trove"

    def test_an_origin_that_the_file_does_not_name_is_left_alone(self) -> None:
        elsewhere = CatalogueRow(id="Task Trove:a", origin="Task Trove")

        [publication] = planned([row("new")], listed(elsewhere))

        assert said(publication) == [("source.declared", "source/MarinSkyRL:new")]

    def test_a_partial_import_retires_nothing(self) -> None:
        [publication] = planned([row("new")], listed(row("not-named")), partial=True)

        assert said(publication) == [("source.declared", "source/MarinSkyRL:new")]
        assert closing(publication)["partial"] is True
        assert closing(publication)["row_count"] == 2
        assert closing(publication)["counts"]["unchanged"] == 0

    def test_a_source_listed_under_another_origin_moves_and_is_not_retired(self) -> None:
        was = CatalogueRow(id="a", origin="Task Trove")
        now = CatalogueRow(id="a", origin="MarinSkyRL")
        stays = CatalogueRow(id="b", origin="Task Trove")

        [publication] = plan_import([now, stays], listed(was, stays), by=ME, partial=False, base={})

        assert said(publication) == [("source.revised", "source/a")]
        assert closing(publication)["origin"] == "MarinSkyRL"

    def test_the_same_import_is_the_same_events(self) -> None:
        rows = [row("b"), row("a", split="train")]

        first, again = planned(rows, {}), planned(list(reversed(rows)), {})

        assert [d.SerializeToString() for p in first for d in p.drafts] == [
            d.SerializeToString() for p in again for d in p.drafts
        ]

    def test_an_import_that_replaces_another_refresh_is_other_events(self) -> None:
        """A source that changes and changes back is recorded both times."""
        [first], [later] = planned([row("a")], {}), planned([row("a")], {}, base="synced-2")

        assert {d.id for d in first.drafts}.isdisjoint(d.id for d in later.drafts)

    def test_another_principal_s_import_is_other_events(self) -> None:
        [mine], [theirs] = planned([row("a")], {}), planned([row("a")], {}, principal="someone")

        assert {d.id for d in mine.drafts}.isdisjoint(d.id for d in theirs.drafts)

    def test_a_refresh_taken_up_again_at_another_hour_has_the_same_parts(self) -> None:
        [first] = planned([row("a")], {}, checked_at="2026-09-29T19:05:19Z")
        [later] = planned([row("a")], {}, checked_at="2026-09-29T20:05:19Z")

        assert [d.id for d in first.parts] == [d.id for d in later.parts]
        assert first.closing is not None
        assert later.closing is not None
        assert first.closing.id != later.closing.id

    def test_the_inventory_is_cited_and_uploaded_and_its_owner_s_revision_recorded(self) -> None:
        path = VECTORS / "good" / "two-origins.jsonl"
        ref, upload = inventory_artifact(path)
        stated = {"MarinSkyRL": InventoryRevision("bb64", "2026-09-29T18:47:50Z")}

        [publication] = planned([row("a")], {}, inventory=ref, uploads=[upload], revisions=stated)

        assert upload.sha256 == sha256_hex(path.read_bytes())
        assert publication.uploads == (upload,)
        assert closing(publication)["inventory"] == {
            "name": "two-origins.jsonl",
            "sha256": upload.sha256,
            "size": upload.size,
            "media_type": "application/x-ndjson",
        }
        assert (closing(publication)["revision"], closing(publication)["revised_at"]) == (
            "bb64",
            "2026-09-29T18:47:50Z",
        )

    def test_every_payload_passes_the_quick_check(self) -> None:
        current = {**listed(row("changed"), row("gone")), **retired(row("back"))}
        rows = [row("new", extra={"turns": "Single-turn", "n": [1, 2.5]}), row("changed", split="a"), row("back")]

        [publication] = planned(rows, current, checked_at="2026-09-29T19:05:19.751082Z")

        assert all(_quick(d.type, d.payload) for d in publication.drafts)


class TestRevisions:
    def test_a_revision_changes_the_revisions_alone(self) -> None:
        before = row("svamp", dataset_revision="d1", verifier_revision="v1", input_rows=700, extra={"turns": "Single"})

        publication = plan_revision(before, by=ME, base="synced-1", row_count=103, verifier_revision="v2")

        [part] = publication.parts
        after = CatalogueRow.model_validate(json.loads(part.payload)["row"])
        assert part.type == "source.revised"
        assert after == before.model_copy(update={"verifier_revision": "v2"})
        assert closing(publication)["partial"] is True
        assert closing(publication)["row_count"] == 103
        assert closing(publication)["replaces"] == "synced-1"
        assert all(_quick(d.type, d.payload) for d in publication.drafts)

    def test_equal_revisions_plan_nothing(self) -> None:
        before = row("svamp", dataset_revision="d1")

        assert plan_revision(before, by=ME, base=None, row_count=1, dataset_revision="d1").drafts == ()

    def test_a_revision_that_names_none_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="no revision is named"):
            plan_revision(row("svamp"), by=ME, base=None, row_count=1)

    def test_what_is_no_revision_is_refused(self) -> None:
        with pytest.raises(InvalidInput) as refused:
            plan_revision(row("svamp"), by=ME, base=None, row_count=1, dataset_revision="")

        assert [p.place for p in refused.value.problems] == ["/dataset_revision"]


def _quick(type_: str, payload: bytes) -> bool:
    quick = REGISTRY.get(type_, 1).quick
    return quick is not None and quick(payload)
