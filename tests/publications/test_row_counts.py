"""Rows are counted of files whose revision is known, once, and never mixed with another basis."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledger.client import actor
from ledger.client.catalogue import plan_count
from ledger.client.downloads import origin_of
from ledger.client.row_counts import Count, count_rows, footer_rows
from ledger.client.row_totals import rows_of, total, totals
from ledger.core.errors import InvalidInput
from ledger.core.ids import sha256_hex
from ledger.events.catalogue import CatalogueRow, RowCount

REVISION = "740312add88f781978c0658806c59bc2815b9866"
OTHER = "9065fa568394f286dab0081e43dc76fc87c48984"
TACO = "Task Trove:laion__exp_rpt_taco-v2"


def parquet(path: Path, rows: int, column: str = "question") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({column: [str(n) for n in range(rows)]}), path)
    return path


def cached(folder: Path, name: str, rows: int, *, revision: str = REVISION, column: str = "question") -> Path:
    """A file as the shared cache has it: a link to a blob that bears its hash."""
    blob = parquet(folder / "blobs" / "new", rows, column)
    blob = blob.rename(folder / "blobs" / sha256_hex(blob.read_bytes()))
    link = folder / "snapshots" / revision / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(blob)
    return link


def downloaded(folder: Path, name: str, rows: int, *, revision: str = REVISION, tag: str | None = None) -> Path:
    """A file as a local folder has it: with the record of its download beside."""
    file = parquet(folder / name, rows)
    record = folder / ".cache/huggingface/download" / f"{name}.metadata"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(f"{revision}\n{tag or sha256_hex(file.read_bytes())}\n1790000000.0\n")
    return file


def count(*paths: Path, revision: str = REVISION, basis: Any = "input", **more: Any) -> Count:
    return count_rows(paths, source_id="MarinSkyRL:gsm8k", revision=revision, basis=basis, **more)


def refused(*paths: Path, **more: Any) -> InvalidInput:
    with pytest.raises(InvalidInput) as error:
        count(*paths, **more)
    assert error.value.remedy
    return error.value


class TestRevisions:
    @pytest.mark.parametrize("made", [cached, downloaded])
    def test_the_download_says_of_which_revision_a_file_is(self, tmp_path: Path, made: Any) -> None:
        found = count(made(tmp_path, "main/train.parquet", 5))

        assert (found.rows, found.revision) == (5, REVISION)
        assert [(f.name, f.checked_by) for f in found.files] == [("main/train.parquet", "download")]

    @pytest.mark.parametrize("made", [cached, downloaded])
    def test_a_file_of_another_revision_is_refused_also_when_unchecked(self, tmp_path: Path, made: Any) -> None:
        path = made(tmp_path, "train.parquet", 5, revision=OTHER)

        for unchecked in (False, True):
            [problem] = refused(path, unchecked=unchecked).problems
            assert problem.place == str(path)
            assert f"it is of {OTHER}, not {REVISION}" in problem.message

    def test_a_file_that_changed_since_its_download_is_refused(self, tmp_path: Path) -> None:
        path = downloaded(tmp_path, "train.parquet", 5)
        parquet(path, 6)

        assert "at its revision to" in refused(path).problems[0].message

    def test_a_file_of_which_nothing_says_its_revision_is_refused(self, tmp_path: Path) -> None:
        error = refused(parquet(tmp_path / "train.parquet", 5))

        assert "nothing says of which revision it is" in error.problems[0].message
        assert "--files-sha256" in error.remedy

    def test_unchecked_it_counts_and_the_revision_is_unknown(self, tmp_path: Path) -> None:
        found = count(cached(tmp_path, "a.parquet", 2), parquet(tmp_path / "b.parquet", 5), unchecked=True)

        assert (found.rows, found.revision) == (7, None)
        assert found.as_row_count().revision is None

    def test_a_hash_that_was_named_says_the_revision(self, tmp_path: Path) -> None:
        path = parquet(tmp_path / "train.parquet", 5)

        found = count(path, hashes=[sha256_hex(path.read_bytes())])

        assert (found.revision, found.files[0].checked_by) == (REVISION, "sha256")

    @pytest.mark.parametrize("text", ["", "main\n", f"{REVISION[:39]}\n"])
    def test_a_record_without_a_commit_says_nothing(self, tmp_path: Path, text: str) -> None:
        path = downloaded(tmp_path, "train.parquet", 5)
        (tmp_path / ".cache/huggingface/download/train.parquet.metadata").write_text(text)

        assert origin_of(path) is None

    def test_a_small_file_s_tag_is_no_hash_and_is_not_compared(self, tmp_path: Path) -> None:
        path = downloaded(tmp_path, "train.parquet", 5, tag="d670460b4b4aece5915caf5c68d12f560a9fe3e4")

        assert count(path).revision == REVISION


class TestCounting:
    def test_the_same_bytes_count_once_and_it_is_said(self, tmp_path: Path) -> None:
        one = cached(tmp_path, "main/train.parquet", 5)
        again = tmp_path / "snapshots" / REVISION / "copy/train.parquet"
        again.parent.mkdir()
        again.symlink_to(one.resolve())

        found = count(one, again, one)

        assert (found.rows, found.repeated) == (5, ("copy/train.parquet", "main/train.parquet"))

    def test_files_of_several_folders_are_told_apart(self, tmp_path: Path) -> None:
        files = [cached(tmp_path, f"{name}/train.parquet", 5, column=name) for name in ("main", "socratic")]

        assert count(files[0]).folders == ["main"]
        assert count(*files).folders == ["main", "socratic"]

    def test_what_is_no_parquet_is_one_problem_among_the_others(self, tmp_path: Path) -> None:
        text = downloaded(tmp_path, "a.parquet", 1)
        text.write_text("PAR1 not really")
        (tmp_path / ".cache/huggingface/download/a.parquet.metadata").write_text(f"{REVISION}\n")

        error = refused(text, tmp_path / "absent.parquet", parquet(tmp_path / "c.parquet", 1))

        assert [p.place for p in error.problems] == [
            str(text),
            str(tmp_path / "absent.parquet"),
            str(tmp_path / "c.parquet"),
        ]
        assert "no Parquet" in error.problems[0].message

    def test_without_pyarrow_it_is_said_what_to_install(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = cached(tmp_path, "a.parquet", 1)
        monkeypatch.setitem(sys.modules, "pyarrow", None)

        error = refused(path)

        assert error.reason == "EXTRA_MISSING"
        assert "atlas-ledger[parquet]" in error.remedy

    def test_rows_of_all_row_groups_count(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"a": list(range(10))}), tmp_path / "a.parquet", row_group_size=3)

        assert footer_rows(tmp_path / "a.parquet") == 10

    def test_the_evidence_names_files_hashes_and_rows_and_tells_nothing_of_the_machine(self, tmp_path: Path) -> None:
        path = cached(tmp_path, "main/train.parquet", 5)
        found = count(path, parquet(tmp_path / "x.parquet", 1), unchecked=True)

        evidence = json.loads(found.evidence.content)

        assert evidence["rows"] == 6
        assert evidence["files"][0] == {
            "file": "main/train.parquet",
            "bytes": path.stat().st_size,
            "sha256": sha256_hex(path.read_bytes()),
            "rows": 5,
            "revision_checked_by": "download",
        }
        assert str(tmp_path).encode() not in found.evidence.content
        assert found.as_row_count().evidence.sha256 == sha256_hex(found.evidence.content)


class TestRecording:
    def test_a_count_takes_the_place_of_its_basis_alone(self, tmp_path: Path) -> None:
        clean = RowCount(basis="clean", rows=4, revision="run")
        before = CatalogueRow(id=TACO, origin="Task Trove", input_rows=9, counts=[_input(9), clean])
        counted = count(cached(tmp_path, "a.parquet", 5)).as_row_count()

        publication = plan_count(before, counted, by=actor("me"), base="b", row_count=1)

        row = CatalogueRow.model_validate(json.loads(publication.parts[0].payload)["row"])
        assert row.counts == [clean, counted]
        assert row.input_rows == 9

    def test_the_same_count_again_plans_nothing(self, tmp_path: Path) -> None:
        counted = count(cached(tmp_path, "a.parquet", 5)).as_row_count()
        row = CatalogueRow(id=TACO, origin="Task Trove", counts=[counted])

        assert plan_count(row, counted, by=actor("me"), base="b", row_count=1).drafts == ()


def _input(rows: int) -> RowCount:
    return RowCount(basis="input", rows=rows, revision="d")


def blend(prefix: str, *counts: int | None) -> list[CatalogueRow]:
    return [CatalogueRow(id=f"{prefix}/{n}", origin="MarinSkyRL", input_rows=c) for n, c in enumerate(counts)]


class TestSums:
    """The Atlas's own numbers: what they are sums of, and what they are not."""

    @pytest.mark.parametrize(
        ("whole", "parts"),
        [
            (13_898, (2_838, 11_060)),
            (13_132, (2_990, 10_142)),
            (2_990, (860, 246, 1_884)),
            (10_142, (3_903, 932, 5_307)),
            (100_000, (91_154, 4_411, 4_435)),
        ],
    )
    def test_a_blend_is_the_sum_of_its_components(self, whole: int, parts: tuple[int, ...]) -> None:
        found = total(blend("O:blend", *parts), "input")

        assert (found.rows, found.known, found.unknown) == (whole, len(parts), 0)

    def test_what_is_unknown_is_counted_apart_and_adds_nothing(self) -> None:
        found = total(blend("O:blend", 2_838, None, 11_060, 0), "input")

        assert (found.rows, found.known, found.unknown) == (13_898, 3, 1)

    def test_row_39_one_source_s_input_clean_and_released_rows_are_three_sums(self) -> None:
        counts = [
            RowCount(basis="input", rows=10_000, revision="02923004846e4e73862c20962f823a6d05100e7a"),
            RowCount(basis="clean", rows=5_182, revision="2026.09.10.1"),
            RowCount(basis="released", rows=5_116, revision=OTHER),
        ]
        taco = CatalogueRow(id=TACO, origin="Task Trove", counts=counts)
        noblock = CatalogueRow(id="Task Trove:b", origin="Task Trove", input_rows=8_728)

        assert [(t.basis, t.rows, t.known, t.unknown) for t in totals([taco, noblock])] == [
            ("input", 18_728, 2, 0),
            ("clean", 5_182, 1, 1),
            ("released", 5_116, 1, 1),
        ]

    def test_the_rows_of_taco_are_converted_or_have_their_reason(self) -> None:
        """Released rows and rejections make up the input; no two bases do."""
        reasons = {"gold_in_instruction": 2_592, "unsupported": 2_291, "reviewed_defect": 1}
        released = RowCount(basis="released", rows=5_116, revision=OTHER)
        taco = CatalogueRow(id=TACO, origin="Task Trove", input_rows=10_000, counts=[released])

        assert rows_of(taco, "released") == 5_116
        assert rows_of(taco, "input") == 5_116 + sum(reasons.values())
        assert rows_of(taco, "clean") is None

    def test_the_archive_s_tasks_are_converted_or_have_their_reason(self) -> None:
        dispositions = {
            "converted": 1_294_537,
            "dropped_source": 393_014,
            "unsupported_variant": 42_261,
            "gold_in_instruction": 4_861,
            "verified:empty": 2_433,
            "verified:gold_leak": 990,
            "duplicate": 942,
            "null_grader": 288,
        }

        assert total(blend("Task Trove:archive", *dispositions.values()), "input").rows == 1_739_326

    def test_the_inventory_s_own_figure_is_the_input_count_where_it_gives_one(self) -> None:
        assert rows_of(CatalogueRow(id="a", origin="O", input_rows=7, counts=[_input(9)]), "input") == 7
        assert rows_of(CatalogueRow(id="a", origin="O", counts=[_input(9)]), "input") == 9
