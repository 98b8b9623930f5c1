"""What goes wrong between a checkpoint and a published model, and how the ledger shows or refuses it.

A test bears the number of the lesson in the domain's list. Folders are checked by `ledger backfill export`, numbers that
others made by the server.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ledger.wire import runs_pb2
from tests.acceptance.training.trained import CHECKS, Trained, codes_of, export_of, exported, numbers, problems, sha
from tests.adapters.builders import export as export_folder
from tests.adapters.builders import shard

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
WHOLE = {"embed.weight": ONE, "a.weight": ONE, "b.weight": TWO}
FILES = ((ONE, "one"), (TWO, "two"), (INDEX, "index"), ("generation_config.json", "no top-k"))


@pytest.fixture
def saved(arm: Trained) -> Trained:
    """A run with one checkpoint, at step 10."""
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        arm.steps(rec, {step: step / 20 for step in range(1, 11)})
        arm.save(rec, 10)
    return arm


class Exported:
    """A folder brought in by the command, and what the ledger then says of the export."""

    def __init__(self, trained: Trained, folder: Path) -> None:
        self._trained = trained
        self.id = f"{trained.id}-step-10"
        named = ("--export", self.id, "--run", trained.id, "--step", 10, "--attempt", 1)
        self.told = trained.doors.tell("backfill", "export", folder, *named)

    @property
    def export(self) -> runs_pb2.Export:
        return export_of(self._trained.answer(), self.id)

    def failed(self) -> dict[str, str]:
        """The checks that failed, each with what it found; nothing says that the export was verified."""
        assert (self.export.status, self.export.HasField("verified_pos")) == ("failed", False)
        assert self.export.failure.startswith("verify: ")
        checks = [check for check in self.export.checks if check.outcome == "failed"]
        return {check.name: f"{check.detail} {check.tensor} {check.file}" for check in checks}


def verify(trained: Trained, export: str, **fields: Any) -> dict[str, Any]:
    """A verification of the export `exported` made, as the keywords have it."""
    known = {"export_id": export, "digest": sha(export), "numbers": numbers(), "checks": CHECKS}
    return {**known, **fields}


def test_a_whole_export_is_verified_with_its_numbers(saved: Trained, tmp_path: Path) -> None:
    """The control of the folders here."""
    found = Exported(saved, export_folder(tmp_path / "export")).export
    assert found.status == "verified"
    assert (found.numbers.index_total_size, found.numbers.tensor_bytes, found.numbers.parameter_count) == (50, 50, 21)
    assert found.flags == []


def test_lesson_18_a_folder_of_configurations_without_weights_is_no_export(saved: Trained, tmp_path: Path) -> None:
    folder = tmp_path / "global_step_10" / "policy" / "huggingface"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    error = saved.doors.refused(
        *("backfill", "export", folder, "--export", "e", "--run", saved.id, "--step", 10),
        code=1,
        reason="INVALID_FILE",
    )
    assert "holds no safetensors files" in error["message"]
    assert "huggingface/ folder has no weights" in error["remedy"]


def test_lesson_18_a_merged_model_that_lost_a_shard_is_recorded_as_failed(saved: Trained, tmp_path: Path) -> None:
    folder = export_folder(tmp_path / "export")
    (folder / TWO).unlink()
    assert "shards_present" in Exported(saved, folder).failed()


def test_lesson_19_an_index_that_lists_tensors_which_were_never_written_is_no_verified_export(
    saved: Trained, tmp_path: Path
) -> None:
    folder = export_folder(tmp_path / "export", weight_map={**WHOLE, "mtp.head.weight": TWO})
    assert "mtp.head.weight" in Exported(saved, folder).failed()["weight_map_complete"]


def test_lesson_19_a_verification_that_admits_a_ghost_is_refused_whoever_sends_it(saved: Trained) -> None:
    exported(saved, f"{saved.id}-e", *FILES)
    ghost = numbers(tensors_in_index=4, ghost_tensors=["mtp.head.weight"])
    error = saved.refused("export.verified", **verify(saved, f"{saved.id}-e", numbers=ghost))
    against = problems(error)
    assert error.reason == "REFUSED_BY_RULES"
    assert against["/numbers/tensors_in_index"] == "is 4, and the shards hold 3 tensors"
    assert "mtp.head.weight" in against["/numbers/ghost_tensors"]
    assert export_of(saved.answer(), f"{saved.id}-e").status == "completed"


def test_lesson_20_a_tensor_outside_the_index_is_found_in_the_other_direction(saved: Trained, tmp_path: Path) -> None:
    folder = export_folder(tmp_path / "export", weight_map={"embed.weight": ONE, "b.weight": TWO})
    assert "a.weight" in Exported(saved, folder).failed()["weight_map_complete"]


def test_lesson_20_a_verification_with_unlisted_tensors_is_refused(saved: Trained) -> None:
    exported(saved, f"{saved.id}-e", *FILES)
    dropped = numbers(tensors_in_index=2, unlisted_tensors=["a.weight"])
    against = problems(saved.refused("export.verified", **verify(saved, f"{saved.id}-e", numbers=dropped)))
    assert set(against) == {"/numbers/tensors_in_index", "/numbers/unlisted_tensors"}


def test_lesson_21_an_old_shard_that_was_left_in_the_folder_is_found(saved: Trained, tmp_path: Path) -> None:
    folder = export_folder(tmp_path / "export")
    shutil.copy(folder / ONE, folder / "model-00001-of-00003.safetensors")
    assert "model-00001-of-00003.safetensors" in Exported(saved, folder).failed()["shards_present"]


def test_lesson_21_a_wrong_shape_does_not_add_up(saved: Trained, tmp_path: Path) -> None:
    folder = export_folder(tmp_path / "export")
    shard(folder / TWO, {"b.weight": ("BF16", [7])})
    assert set(Exported(saved, folder).failed()) == {"total_size"}


def test_lesson_21_shapes_that_differ_from_the_completed_export_are_refused(saved: Trained) -> None:
    exported(saved, f"{saved.id}-e", *FILES, parameter_count=21, total_size=50)
    other = numbers(parameter_count=23)
    against = problems(saved.refused("export.verified", **verify(saved, f"{saved.id}-e", numbers=other)))
    assert against == {"/numbers/parameter_count": "is 23, and the export was completed with parameter_count 21"}


def test_lesson_22_tied_embeddings_are_recorded_and_a_failed_comparison_of_logits_refuses(saved: Trained) -> None:
    export = f"{saved.id}-e"
    exported(saved, export, *FILES, tied_weights=True)
    assert export_of(saved.answer(), export).completed.tied_weights
    logits = {"name": "logits_agree", "outcome": "failed", "detail": "differ by 1.7", "tensor": "lm_head.weight"}
    error = saved.refused("export.verified", **verify(saved, export, checks=[*CHECKS, logits]))
    assert problems(error) == {f"/checks/{len(CHECKS)}": "the check logits_agree failed, lm_head.weight, differ by 1.7"}


def test_lesson_22_what_needs_the_base_is_told_as_not_checked_and_never_as_passed(
    saved: Trained, tmp_path: Path
) -> None:
    found = Exported(saved, export_folder(tmp_path / "export")).export
    assert found.completed.tied_weights
    outcomes = {check.name: check.outcome for check in found.checks}
    assert (outcomes["base_tensors"], outcomes["differs_from_base"]) == ("not_checked", "not_checked")


def test_lesson_23_a_generation_config_that_changed_on_the_way_is_found_by_its_digest(saved: Trained) -> None:
    export = f"{saved.id}-e"
    files = exported(saved, export, *FILES)
    saved.tell("export.verified", **verify(saved, export, files=files))
    published = [*files[:3], {"path": "generation_config.json", "sha256": sha("top-k 50")}]
    saved.tell("model.published", export_id=export, repository="org/m", commit="c" * 40, files=published)
    found = export_of(saved.answer(), export)
    assert (found.models[0].files_agree, codes_of(found.flags)) == (False, ["PUBLISHED_OTHER_FILES"])
    assert "generation_config.json has another digest" in found.flags[0].message


def test_lesson_23_the_generation_config_is_hashed_with_the_weights(saved: Trained, tmp_path: Path) -> None:
    folder = export_folder(tmp_path / "export")
    text = json.dumps({"top_k": 50})
    (folder / "generation_config.json").write_text(text)
    files = {file.path: file.sha256 for file in Exported(saved, folder).export.completed.files}
    assert files["generation_config.json"] == sha(text)


def test_lesson_24_an_export_that_died_says_at_which_stage_and_why(saved: Trained) -> None:
    export = f"{saved.id}-e"
    saved.tell("export.started", export_id=export, checkpoint={"run_id": saved.id, "step": 10}, route="rerun")
    saved.tell("export.failed", export_id=export, stage="write", reason="a barrier timed out after 1,800 s")
    found = export_of(saved.answer(), export)
    assert (found.status, found.failure) == ("failed", "write: a barrier timed out after 1,800 s")
    assert f"{export}` failed" in saved.card()


def test_lesson_24_an_index_that_is_public_before_its_shards_is_flagged_by_each_that_is_missing(saved: Trained) -> None:
    export = f"{saved.id}-e"
    files = exported(saved, export, *FILES)
    saved.tell("model.published", export_id=export, repository="org/m", commit="c" * 40, files=files[2:])
    found = export_of(saved.answer(), export)
    assert (found.status, found.models[0].files_agree) == ("published_unverified", False)
    messages = {flag.code: flag.message for flag in found.flags}
    assert set(messages) == {"PUBLISHED_UNVERIFIED", "PUBLISHED_OTHER_FILES"}
    assert f"{ONE} is missing; {TWO} is missing" in messages["PUBLISHED_OTHER_FILES"]


def test_lesson_24_a_verification_after_the_publication_does_not_undo_that_it_came_too_late(saved: Trained) -> None:
    export = f"{saved.id}-e"
    files = exported(saved, export, *FILES)
    saved.tell("model.published", export_id=export, repository="org/m", commit="c" * 40, files=files)
    saved.tell("export.verified", **verify(saved, export, files=files))
    found = export_of(saved.answer(), export)
    assert (found.status, codes_of(found.flags)) == ("published", ["PUBLISHED_UNVERIFIED"])
