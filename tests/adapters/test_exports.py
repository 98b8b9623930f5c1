"""Exports and checkpoints that lie in folders: what is whole is told from what is not, by headers and names alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledger.client.exports.indexes import INDEX
from ledger.core.errors import InvalidInput
from services.adapters.backfill.checkpoint_folders import plan_checkpoints
from services.adapters.backfill.export_folders import plan_export
from tests.adapters.builders import ME, checkpoint, events, export, ids, shard

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
WHOLE = {"embed.weight": ONE, "a.weight": ONE, "b.weight": TWO}


def plan(folder: Path):
    return plan_export(folder, export_id="e", run_id="r", step=15, by=ME)


def only_failure(folder: Path) -> dict:
    """The failure of an export whose one fault must be found by one check."""
    said = events(plan(folder))
    assert [e["type"] for e in said] == ["export.started", "export.completed", "export.failed"]
    return said[-1]


class TestAWholeExport:
    def test_it_is_started_completed_and_offered_as_verified(self, tmp_path):
        said = events(plan(export(tmp_path)))
        assert [e["type"] for e in said] == ["export.started", "export.completed", "export.verified"]
        assert said[0]["route"] == "unknown"

    def test_its_numbers_come_from_the_headers(self, tmp_path):
        _, completed, verified = events(plan(export(tmp_path)))
        assert completed["total_size"] == 24 + 16 + 10
        assert (completed["shard_count"], completed["tensor_count"], completed["parameter_count"]) == (2, 3, 21)
        assert completed["dtypes"] == ["BF16", "F32"]
        assert completed["tied_weights"] is True
        assert verified["numbers"] == {
            "shard_files": 2,
            "shards_named": 2,
            "shards_in_names": 2,
            "index_total_size": 50,
            "tensor_bytes": 50,
            "tensors_in_index": 3,
            "tensors_in_shards": 3,
            "parameter_count": 21,
        }

    def test_what_needs_the_base_is_told_as_not_checked(self, tmp_path):
        checks = {c["name"]: c["outcome"] for c in events(plan(export(tmp_path)))[-1]["checks"]}
        assert checks == {
            "index_parses": "passed",
            "shards_present": "passed",
            "weight_map_complete": "passed",
            "total_size": "passed",
            "not_truncated": "passed",
            "base_tensors": "not_checked",
            "parameter_count": "passed",
            "file_digests": "not_checked",
            "differs_from_base": "not_checked",
        }

    def test_the_verification_is_of_the_files_that_were_completed(self, tmp_path):
        _, completed, verified = events(plan(export(tmp_path)))
        assert verified["digest"] == completed["digest"]
        assert verified["files"] == completed["files"]
        assert {f["path"] for f in completed["files"]} == {ONE, TWO, INDEX, "config.json"}

    def test_the_decision_cites_what_is_stored_with_it(self, tmp_path):
        found = plan(export(tmp_path))
        assert [u.sha256 for u in found.uploads] == [events(found)[-1]["basis"]["document"]["sha256"]]


class TestAFaultyExport:
    def test_a_ghost_is_named_with_the_file_that_should_hold_it(self, tmp_path):
        failed = only_failure(export(tmp_path, weight_map={**WHOLE, "mtp.head": TWO}))
        assert failed["failed_checks"] == [
            {
                "name": "weight_map_complete",
                "outcome": "failed",
                "detail": "1 tensor is not in the file that the index names",
                "tensor": "mtp.head",
                "file": TWO,
            }
        ]
        assert "mtp.head" in failed["reason"]

    @pytest.mark.parametrize("name", ["half\ud800", "n\0ul", "x" * 600, ""])
    def test_a_ghost_whose_name_no_event_can_hold_is_a_failure_and_no_crash(self, tmp_path, name):
        failed = only_failure(export(tmp_path, weight_map={**WHOLE, name: TWO}))
        assert [(c["name"], c["file"]) for c in failed["failed_checks"]] == [("weight_map_complete", TWO)]
        assert 0 < len(failed["failed_checks"][0]["tensor"]) <= 512

    def test_a_tensor_outside_the_index_is_named(self, tmp_path):
        failed = only_failure(export(tmp_path, weight_map={"embed.weight": ONE, "b.weight": TWO}))
        assert [(c["name"], c["tensor"], c["file"]) for c in failed["failed_checks"]] == [
            ("weight_map_complete", "a.weight", ONE)
        ]

    def test_a_tensor_in_another_file_than_the_index_says_is_a_fault(self, tmp_path):
        failed = only_failure(export(tmp_path, weight_map={**WHOLE, "a.weight": TWO}))
        assert [(c["name"], c["tensor"]) for c in failed["failed_checks"]] == [("weight_map_complete", "a.weight")]

    def test_a_wrong_total_is_told_with_both_numbers(self, tmp_path):
        failed = only_failure(export(tmp_path, total=51))
        assert [(c["name"], c["detail"]) for c in failed["failed_checks"]] == [
            ("total_size", "the index says 51 bytes, and the tensors have 50")
        ]

    def test_a_shard_that_is_cut_off_is_named(self, tmp_path):
        failed = only_failure(export(tmp_path, cut=1))
        assert [(c["name"], c["file"]) for c in failed["failed_checks"]] == [("not_truncated", TWO)]

    def test_a_shard_that_is_missing_is_named(self, tmp_path):
        (export(tmp_path) / TWO).unlink()
        failed = only_failure(tmp_path)
        assert failed["failed_checks"][0]["name"] == "shards_present"
        assert failed["failed_checks"][0]["file"] == TWO

    def test_a_shard_of_an_earlier_export_is_named(self, tmp_path):
        shard(export(tmp_path) / "model-00003-of-00003.safetensors", {"old": ("F32", [1])})
        failed = only_failure(tmp_path)
        assert failed["failed_checks"][0]["file"] == "model-00003-of-00003.safetensors"

    def test_fewer_shards_than_their_names_say_is_a_fault(self, tmp_path):
        shard(tmp_path / ONE, {"a": ("F32", [1])})
        (tmp_path / INDEX).write_text(json.dumps({"metadata": {"total_size": 4}, "weight_map": {"a": ONE}}))
        failed = only_failure(tmp_path)
        assert [c["detail"] for c in failed["failed_checks"]] == ["the names say 2 shards, and 1 file is there"]

    @pytest.mark.parametrize("name", ["../out.safetensors", "/etc/passwd", "sub/x.safetensors", ".."])
    def test_a_file_name_that_leads_out_of_the_folder_is_refused_by_name(self, tmp_path, name):
        failed = only_failure(export(tmp_path, weight_map={**WHOLE, "b.weight": name}))
        assert failed["failed_checks"][0]["name"] == "index_parses"

    @pytest.mark.parametrize("index", ["{", "[]", '{"weight_map": 3}', '{"weight_map": {"a": 1}}', "[" * 100_000])
    def test_an_index_that_cannot_be_read_is_a_failure_and_no_crash(self, tmp_path, index):
        (export(tmp_path) / INDEX).write_text(index)
        assert only_failure(tmp_path)["failed_checks"][0]["name"] == "index_parses"

    def test_the_faults_are_part_of_what_is_told(self, tmp_path):
        account = plan(export(tmp_path, total=51)).account
        assert (account.malformed, account.unread[0].place) == (1, INDEX)


def test_one_file_without_an_index_is_completed_and_not_called_verified(tmp_path):
    shard(tmp_path / "model.safetensors", {"a": ("F32", [2])})
    found = plan(tmp_path)
    assert [e["type"] for e in events(found)] == ["export.started", "export.completed"]
    assert any("nothing to verify it against" in note for note in found.account.notes)


def test_a_folder_with_configurations_only_has_no_weights(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InvalidInput, match="holds no safetensors files"):
        plan(tmp_path)


FSDP = [f"{kind}_world_size_2_rank_{rank}.pt" for kind in ("model", "optim", "extra_state") for rank in (0, 1)]
DCP = [".metadata", "__0_0.distcp", "__1_0.distcp", "common.pt"]


class TestCheckpoints:
    def saved(self, folder: Path, **options):
        return plan_checkpoints(folder, run_id="r", by=ME, **options)

    @pytest.mark.parametrize(
        ("names", "kind"), [(FSDP, "fsdp_shards"), (DCP, "megatron_torch_dist"), (DCP[:3], "torch_dcp")]
    )
    def test_a_whole_one_is_committed_with_its_files(self, tmp_path, names, kind):
        checkpoint(tmp_path, 5, names)
        (tmp_path / "latest_ckpt_global_step.txt").write_text("5")
        (said,) = events(self.saved(tmp_path))
        assert (said["step"], said["format"], said["attempt"]) == (5, kind, None)
        assert {f["path"] for f in said["files"]} == {f"policy/{n}" for n in names} | {"trainer_state.pt", "data.pt"}
        assert said["contents"]["data_state"] is True
        assert "last_update" not in said

    @pytest.mark.parametrize(
        ("names", "state", "fault"),
        [
            (DCP[1:], True, "no .metadata"),
            (DCP[:1], True, "no shards"),
            (FSDP[1:], True, "lack rank 0 of 2"),
            ([*FSDP, "model_world_size_4_rank_3.pt"], True, "worlds of 2, 4 ranks"),
            (["config.json"], True, "no weights"),
            (FSDP, False, "no trainer_state.pt"),
        ],
    )
    def test_an_incomplete_one_is_the_trace_of_a_save_that_failed(self, tmp_path, names, state, fault):
        checkpoint(tmp_path, 5, names, state=state)
        found = self.saved(tmp_path, attempt=2)
        assert [(e["type"], e["attempt"], e["step"]) for e in events(found)] == [("checkpoint.save_started", 2, 5)]
        assert fault in found.account.unread[0].what

    def test_whose_save_it_was_must_be_known_to_record_that_it_failed(self, tmp_path):
        checkpoint(tmp_path, 5, DCP[1:])
        found = self.saved(tmp_path)
        assert events(found) == []
        assert (found.account.malformed, sum(found.account.left_out.values())) == (1, 1)

    def test_one_that_is_ahead_of_the_latest_is_not_committed(self, tmp_path):
        checkpoint(tmp_path, 5, FSDP)
        checkpoint(tmp_path, 10, FSDP)
        (tmp_path / "latest_ckpt_global_step.txt").write_text("5\n")
        found = self.saved(tmp_path, attempt=1)
        assert [(e["type"], e["step"]) for e in events(found)] == [
            ("checkpoint.committed", 5),
            ("checkpoint.save_started", 10),
        ]

    def test_the_label_of_the_save_after_the_loop_is_one_too_many(self, tmp_path):
        checkpoint(tmp_path, 80, FSDP)
        checkpoint(tmp_path, 81, FSDP)
        said = events(self.saved(tmp_path, last_step=80))
        assert [(e["step"], e.get("last_update")) for e in said] == [(80, None), (81, 80)]
        assert "counts on" in said[1]["basis"]["note"]

    def test_two_labels_of_the_same_weights_are_told(self, tmp_path):
        checkpoint(tmp_path, 5, FSDP)
        second = checkpoint(tmp_path, 6, FSDP)
        for name in FSDP:
            (second / "policy" / name).write_bytes((tmp_path / "global_step_5" / "policy" / name).read_bytes())
        (second / "trainer_state.pt").write_bytes(b"another state")
        found = self.saved(tmp_path)
        assert "The checkpoints 5 and 6 hold the same weights: one label is wrong." in found.account.notes

    def test_without_a_file_of_the_latest_that_is_told(self, tmp_path):
        checkpoint(tmp_path, 5, FSDP)
        assert any("latest_ckpt_global_step.txt" in note for note in self.saved(tmp_path).account.notes)

    def test_a_save_with_other_bytes_is_another_event(self, tmp_path):
        place = checkpoint(tmp_path, 5, FSDP)
        before = ids(self.saved(tmp_path))
        (place / "policy" / FSDP[0]).write_bytes(b"overwritten by an export job")
        assert set(ids(self.saved(tmp_path))).isdisjoint(before)

    def test_a_folder_of_none_is_refused(self, tmp_path):
        with pytest.raises(InvalidInput) as caught:
            self.saved(tmp_path)
        assert caught.value.reason == "NO_ROWS"
