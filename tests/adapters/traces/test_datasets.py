"""The dataset's folder: whole or not at all, the same bytes for the same trials, and never in place of others' files."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.client.recording.files import read_files
from ledger.core.errors import InvalidInput, LedgerError, Refused
from services.adapters.traces.accounts import STAGES, Tally
from services.adapters.traces.datasets import build
from services.adapters.traces.ordering import Ordered
from services.adapters.traces.published import run_of
from services.adapters.traces.rows import Row, Turn
from services.adapters.traces.shards import write_shards
from tests.adapters.traces.builders import keep, rollout, rows_of, said_of, solved


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return keep(tmp_path / "arm", *(rollout(step, sample) for step in (1, 2) for sample in range(5)))


def test_the_same_trials_give_the_same_bytes_wherever_they_lie(run, tmp_path):
    moved = shutil.copytree(run, tmp_path / "elsewhere" / "arm")
    one, two = build([run], tmp_path / "one"), build([moved], tmp_path / "two")
    assert one.files == two.files
    assert one.files.digest == read_files(two.folder).digest


def test_the_order_in_which_places_are_named_does_not_move_a_row(run, tmp_path):
    solved(tmp_path / "job", "a__aaaaaaa")
    ahead, behind = build([run, tmp_path / "job"], tmp_path / "one"), build([tmp_path / "job", run], tmp_path / "two")
    assert ahead.manifest["shards"] == behind.manifest["shards"]
    assert rows_of(ahead.folder)[-1]["trial_name"] == "a__aaaaaaa"


def test_another_trial_gives_another_digest(run, tmp_path):
    before = build([run], tmp_path / "one").files.digest
    keep(run, rollout(3, 0))
    assert build([run], tmp_path / "two").files.digest != before


def test_shards_have_so_many_rows_and_the_manifest_has_their_digests(run, tmp_path):
    built = build([run], tmp_path / "traces", rows_per_shard=4)
    shards = built.manifest["shards"]
    assert [(s["path"], s["rows"]) for s in shards] == [
        ("data/train-00000-of-00003.parquet", 4),
        ("data/train-00001-of-00003.parquet", 4),
        ("data/train-00002-of-00003.parquet", 2),
    ]
    by_path = {f.path: f for f in built.files.files}
    assert [(by_path[s["path"]].sha256, by_path[s["path"]].size) for s in shards] == [
        (s["sha256"], s["size"]) for s in shards
    ]
    assert sorted(by_path) == ["README.md", *(s["path"] for s in shards), "manifest.json"]


def test_the_shards_hold_the_rows_that_one_shard_would(run, tmp_path):
    one, many = build([run], tmp_path / "one"), build([run], tmp_path / "many", rows_per_shard=3)
    assert rows_of(one.folder) == rows_of(many.folder)


def test_row_groups_are_cut_by_size_so_that_a_shard_is_never_held_whole(tmp_path):
    ordered = Ordered(tmp_path / "rows")
    for sample in range(5):
        ordered.add(Row(conversations=[Turn("user", "x" * 600)], sample=sample))
    write_shards(tmp_path, iter(ordered), len(ordered), rows_per_shard=10, group_bytes=3_000)
    ordered.close()
    read = pq.ParquetFile(tmp_path / "data" / "train-00000-of-00001.parquet")
    assert [read.metadata.row_group(n).num_rows for n in range(read.num_row_groups)] == [2, 2, 1]


def test_the_input_is_named_without_its_folders_and_by_a_digest(run, tmp_path):
    (place,) = build([run], tmp_path / "traces").manifest["places"]
    assert (place["name"], place["kind"], place["files"]) == ("arm", "run folder", 2)
    assert place["digest"] == read_files(run).digest
    assert str(tmp_path) not in (tmp_path / "traces" / "manifest.json").read_text()


def test_the_card_is_a_dataset_card_that_names_every_column_and_file(run, tmp_path):
    text = (build([run], tmp_path / "traces").folder / "README.md").read_text()
    assert text.startswith("---\nconfigs:\n")
    for name in (*said_of(tmp_path / "traces")["columns"], "data/train-00000-of-00001.parquet"):
        assert f"| `{name}` |" in text


def test_a_name_in_the_card_cannot_become_markup(tmp_path):
    run = keep(tmp_path / "arm", rollout(1, 0, run_id="<script>`x` | [a](b)"))
    (run / "rollouts" / "a|b<img>.txt").write_text("x")
    text = (build([run], tmp_path / "traces").folder / "README.md").read_text()
    assert "# Traces of `` <script>`x` | [a](b) ``" in text
    assert "<img>" not in text


class TestAPlaceThatHoldsSomething:
    def test_is_refused_without_force(self, run, tmp_path):
        build([run], tmp_path / "traces")
        with pytest.raises(Refused, match="holds traces already") as caught:
            build([run], tmp_path / "traces")
        assert caught.value.reason == "IN_USE"

    def test_is_replaced_with_force_if_it_was_made_here(self, run, tmp_path):
        build([run], tmp_path / "traces", rows_per_shard=1)
        built = build([run], tmp_path / "traces", force=True)
        assert len(rows_of(built.folder)) == 10
        assert len(list((built.folder / "data").iterdir())) == 1

    @pytest.mark.parametrize("name", ["notes.txt", "data/more.parquet", "sub/manifest.json"])
    def test_is_never_replaced_if_others_put_something_there(self, run, tmp_path, name):
        folder = build([run], tmp_path / "traces").folder
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("mine")
        with pytest.raises(Refused, match="something else"):
            build([run], tmp_path / "traces", force=True)
        assert (folder / name).read_text() == "mine"

    @pytest.mark.parametrize("manifest", ["{}", "[]", "{", '{"format": "atlas-ledger-traces", "shards": [3]}', None])
    def test_is_never_replaced_if_its_manifest_is_another(self, run, tmp_path, manifest):
        folder = tmp_path / "traces"
        folder.mkdir()
        (folder / "README.md").write_text("mine")
        if manifest is not None:
            (folder / "manifest.json").write_text(manifest)
        with pytest.raises(Refused, match="something else"):
            build([run], folder, force=True)
        assert (folder / "README.md").read_text() == "mine"

    def test_may_be_an_empty_folder(self, run, tmp_path):
        (tmp_path / "traces").mkdir()
        assert build([run], tmp_path / "traces").manifest["rows"] == 10

    @pytest.mark.parametrize("kind", ["file", "link"])
    def test_must_be_a_folder(self, run, tmp_path, kind):
        place = tmp_path / "traces"
        if kind == "file":
            place.write_text("x")
        else:
            place.symlink_to(tmp_path)
        with pytest.raises(InvalidInput, match="is no folder"):
            build([run], place, force=True)


def test_what_fails_on_the_way_leaves_nothing_and_keeps_what_was_there(run, tmp_path):
    before = build([run], tmp_path / "traces").files
    shutil.rmtree(run / "rollouts")
    with pytest.raises(InvalidInput):
        build([run], tmp_path / "traces", force=True)
    assert read_files(tmp_path / "traces") == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["arm", "traces"]


def test_a_place_without_trials_is_named_and_the_others_are_built(run, tmp_path):
    (tmp_path / "empty").mkdir()
    said = build([run, tmp_path / "empty"], tmp_path / "traces").manifest
    assert said["left_out"]["a folder without rollouts and without trials"]["places"] == ["empty"]
    assert said["coverage"]["started"] is None


def test_a_place_that_is_no_folder_is_refused(run, tmp_path):
    with pytest.raises(InvalidInput, match="gone is no folder"):
        build([run, tmp_path / "gone"], tmp_path / "traces")


def test_without_pyarrow_it_is_said_what_to_install(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(LedgerError) as caught:
        build([run], tmp_path / "traces")
    assert (caught.value.reason, caught.value.details["extra"]) == ("EXTRA_MISSING", "parquet")


@pytest.mark.parametrize(
    ("runs", "asked", "expected"), [(["a"], None, "a"), (["a"], "b", "b"), ([], "b", "b"), (["a", "b"], "b", "b")]
)
def test_the_run_of_a_publication_is_the_one_asked_for_or_the_only_one(runs, asked, expected):
    assert run_of(runs, asked) == expected


@pytest.mark.parametrize("runs", [[], ["a", "b"]])
def test_a_publication_of_no_run_or_of_several_must_name_one(runs):
    with pytest.raises(InvalidInput, match="the rows"):
        run_of(runs, None)


reached = st.fixed_dictionaries({stage: st.sampled_from([True, False, None]) for stage in STAGES[1:]})


@given(st.lists(reached, max_size=20), st.sets(st.sampled_from(STAGES), max_size=2))
def test_a_stage_is_counted_only_where_every_trial_tells_it(trials, hidden):
    tally = Tally()
    for one in trials:
        tally.add(one)
    tally.hide(*hidden)
    for stage in STAGES:
        said = [True if stage == "started" else one[stage] for one in trials]
        known = None not in said and stage not in hidden
        assert tally.counts[stage] == (said.count(True) if known else None)
        assert tally.seen[stage] == said.count(True)


outcome = st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from(["train", "eval"]))


@given(st.lists(outcome, min_size=1, max_size=8))
def test_the_coverage_of_any_rollouts_is_what_their_lines_add_up_to(tmp_path_factory, outcomes):
    folder = tmp_path_factory.mktemp("any")
    lines = [
        rollout(1, n, phase=phase, reward=1.0 if verified else None, consumed=consumed, masked=masked, trained=trained)
        for n, (verified, consumed, masked, trained, phase) in enumerate(outcomes)
    ]
    said = build([keep(folder / "arm", *lines)], folder / "traces").manifest
    assert said["coverage"] == {
        "started": len(lines),
        "finished": len(lines),
        "verified": sum(line.reward is not None for line in lines),
        "consumed": sum(line.consumed for line in lines),
        "trained": sum(line.trained for line in lines),
        "published": len(lines),
    }
    assert said["rows_that_trained"] == sum(line.trained and line.phase == "train" for line in lines)
    assert json.loads((folder / "traces" / "manifest.json").read_text()) == said
