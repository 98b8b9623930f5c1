"""Which folder is a checkpoint, which step it is, and what is a half of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from ledger.client.recording.files import read_files
from ledger.core.errors import Broken, InvalidInput, LedgerError
from services.exporter.checkpoints import read_source
from tests.exporter import checkpoints
from tests.exporter.checkpoints import RUN, checkpoint


@pytest.fixture
def save(tmp_path: Path) -> Path:
    return checkpoints.save({"a": torch.ones(2)}, tmp_path / "save")


def refusal(folder: Path, **asked: object) -> LedgerError:
    with pytest.raises(LedgerError) as caught:
        read_source(folder, **asked)
    return caught.value


def test_the_trainer_s_says_run_attempt_and_step_and_its_digest_is_over_all_files(tmp_path):
    folder = checkpoint(tmp_path)
    found = read_source(folder)
    assert (found.run_id, found.attempt, found.step) == (RUN, 2, 40)
    assert (found.save, found.side) == (folder / "weights", folder / "huggingface")
    assert found.digest == read_files(folder).digest


@pytest.mark.parametrize("part", ["", "weights", "policy", "model"])
def test_another_trainer_s_save_is_found_where_it_lies(tmp_path, save, part):
    folder = tmp_path / "global_step_15"
    (folder / part).parent.mkdir(exist_ok=True)
    checkpoints.moved(save, folder / part)
    checkpoints.side_files(folder / part / "huggingface")
    found = read_source(folder)
    assert (found.save, found.side) == (folder / part, folder / part / "huggingface")
    assert (found.run_id, found.step) == (None, 15)


def test_the_part_itself_may_be_named_and_has_the_step_of_its_folder(tmp_path, save):
    (tmp_path / "global_step_15").mkdir()
    assert read_source(checkpoints.moved(save, tmp_path / "global_step_15/policy")).step == 15


def test_a_folder_of_another_name_has_no_step(save):
    assert read_source(save).step is None
    assert read_source(save, step=7).step == 7


def test_a_later_attempt_s_folder_has_the_step_too(tmp_path):
    assert read_source(checkpoint(tmp_path, name="global_step_40.attempt_3")).step == 40


class TestStep:
    def test_a_label_that_counts_on_is_refused_until_the_step_is_said(self, tmp_path):
        folder = checkpoint(tmp_path, step=80, name="global_step_81")
        error = refusal(folder)
        assert error.reason == "USAGE"
        assert "trainer_state.json says 80 and the folder's name says 81" in error.message
        found = read_source(folder, step=80)
        assert found.step == 80
        assert found.notes == (
            "trainer_state.json says 80 and the folder's name says 81; it is exported as step 80, as --step says.",
        )

    def test_a_step_that_the_checkpoint_does_not_name_is_refused(self, tmp_path):
        assert "--step says 41, and" in refusal(checkpoint(tmp_path), step=41).message

    def test_one_that_it_names_is_taken_without_a_word(self, tmp_path):
        assert read_source(checkpoint(tmp_path), step=40).notes == ()


class TestHalves:
    def test_a_save_without_its_index_was_never_finished(self, tmp_path):
        folder = checkpoint(tmp_path)
        (folder / "weights/.metadata").unlink()
        assert "no .metadata, which is written last: it was never finished" in refusal(folder).message

    def test_a_checkpoint_without_its_manifest_was_never_finished(self, tmp_path):
        folder = checkpoint(tmp_path)
        (folder / "manifest.json").unlink()
        assert "no manifest.json, which is written last" in refusal(folder).message

    @pytest.mark.parametrize("name", [".saving-40-0a1b", ".deleting-global_step_40-0a1b"])
    def test_a_folder_that_a_save_or_a_deletion_left_is_none(self, tmp_path, name):
        assert "never finished" in refusal(checkpoint(tmp_path, name=name)).message

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            (lambda f: (f / "optimizer/.metadata").write_bytes(b"other"), "optimizer/.metadata has other bytes"),
            (lambda f: (f / "huggingface/tokenizer.json").unlink(), "huggingface/tokenizer.json is missing"),
            (lambda f: (f / "extra.bin").write_bytes(b""), "extra.bin was not saved with it"),
        ],
        ids=["changed", "missing", "added"],
    )
    def test_files_that_are_not_those_that_were_saved_are_told(self, tmp_path, change, told):
        folder = checkpoint(tmp_path)
        change(folder)
        with pytest.raises(Broken, match=told):
            read_source(folder)


class TestNone:
    def test_what_is_not_there(self, tmp_path):
        assert "there is no such folder" in refusal(tmp_path / "none").message

    def test_a_folder_of_something_else(self, tmp_path):
        (tmp_path / "weights").mkdir()
        assert isinstance(refusal(tmp_path), InvalidInput)

    def test_pickled_shards_of_fsdp_are_not_read(self, tmp_path):
        (tmp_path / "policy").mkdir()
        (tmp_path / "policy/model_world_size_2_rank_0.pt").write_bytes(b"")
        assert refusal(tmp_path).reason == "NOT_SUPPORTED"

    def test_two_saves_of_which_none_is_named(self, tmp_path, save):
        checkpoints.save({"a": torch.ones(2)}, tmp_path / "c/weights")
        checkpoints.moved(save, tmp_path / "c/policy")
        assert "several saves (weights, policy)" in refusal(tmp_path / "c").message

    def test_a_state_of_another_program_says_nothing(self, tmp_path, save):
        (save / "trainer_state.json").write_text(json.dumps({"global_step": 3}))
        assert (read_source(save).run_id, read_source(save).step) == (None, None)

    @pytest.mark.parametrize("content", ["{", "[" * 100_000])
    def test_a_damaged_state_is_refused(self, save, content):
        (save / "trainer_state.json").write_text(content)
        assert "trainer_state.json cannot be read" in refusal(save).message

    def test_a_state_of_a_later_release_is_refused(self, tmp_path):
        assert "has the schema 2" in refusal(checkpoint(tmp_path, state={"schema_version": 2})).message
