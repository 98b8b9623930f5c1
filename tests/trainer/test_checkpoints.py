"""Checkpoints are whole or not loaded, and hold all that training goes on from."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ledger.client.recording.files import read_files
from ledger.client.testing import FakeLedger
from ledger.core.errors import Broken, InvalidInput, LedgerError
from services.trainer import checkpoint_folders, checkpoints, models
from services.trainer.distributed import Team
from services.trainer.options import Options
from services.trainer.policies import Policy
from services.trainer.rollouts.transformers_engine import TransformersEngine
from services.trainer.running import export_only
from tests.trainer.crashing_saves import DIED
from tests.trainer.runs import settings, train


def last(folder: Path) -> Path:
    return folder / "checkpoints" / "global_step_4"


def test_a_checkpoint_holds_what_the_exporter_and_a_resume_read(trained):
    folder = last(trained.folder)
    names = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert {"weights/.metadata", "optimizer/.metadata", "rng/rank_0.json", "manifest.json"} <= names
    assert {"huggingface/config.json", "huggingface/generation_config.json", "huggingface/tokenizer.json"} <= names
    assert not [n for n in names if n.endswith((".pt", ".pkl", ".bin"))]
    state = json.loads((folder / "trainer_state.json").read_text())
    assert (state["schema_version"], state["run_id"], state["attempt"]) == (1, "tiny", 1)
    assert (state["step"], state["weight_version"], state["world_size"]) == (4, 4, 1)
    assert state["data"]["prompts_consumed"] == 16
    assert state["data"]["epoch"] == 1
    assert len(state["data"]["consumed"]) == 6
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [f["path"] for f in manifest["files"]] == sorted(names - {"manifest.json"})
    assert (folder.parent / "latest.txt").read_text() == "global_step_4\n"


def test_tied_weights_are_saved_once_and_untied_ones_both(trained, tmp_path):
    def names(folder: Path) -> set[str]:
        return set(checkpoints.FileSystemReader(folder / "weights").read_metadata().state_dict_metadata)

    untied = train(settings(tmp_path, model={"tied": False}, run={"steps": 2}))
    assert "lm_head.weight" not in names(last(trained.folder))
    assert "lm_head.weight" in names(untied.folder / "checkpoints" / "global_step_2")


def _without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _shorter(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-1])


def _changed(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[len(data) // 2] ^= 1
        (folder / name).write_bytes(data)

    return change


@pytest.mark.parametrize(
    ("harm", "error", "place"),
    [
        (_without("weights/.metadata"), InvalidInput, "weights/.metadata is missing"),
        (_without("optimizer/__0_0.distcp"), InvalidInput, "optimizer/__0_0.distcp is missing"),
        (_without("manifest.json"), InvalidInput, "manifest.json: No such file"),
        (_without("trainer_state.json"), InvalidInput, "trainer_state.json is missing"),
        (_shorter("weights/__0_0.distcp"), InvalidInput, "weights/__0_0.distcp has"),
        (_shorter("manifest.json"), InvalidInput, None),
        (_changed("weights/__0_0.distcp"), Broken, "weights/__0_0.distcp has other bytes"),
        (_changed("huggingface/config.json"), Broken, "huggingface/config.json has other bytes"),
        (lambda folder: (folder / "more.pt").write_bytes(b"x"), InvalidInput, "more.pt was not saved with it"),
        (lambda folder: (folder / "manifest.json").write_text("[]"), InvalidInput, "no JSON object"),
        (lambda folder: (folder / "manifest.json").write_text('{"schema_version": 1}'), InvalidInput, "no files"),
        (lambda folder: (folder / "manifest.json").write_text('{"schema_version": 9}'), InvalidInput, "schema 9"),
    ],
    ids=range(12),
)
def test_a_checkpoint_that_is_not_whole_is_refused_and_starts_no_attempt(copied, harm, error, place):
    history = (copied / "history.jsonl").read_bytes()
    harm(last(copied))
    if place is None:
        checkpoint_folders.verify(last(copied))  # a line feed at the end is all that is gone
        return
    with pytest.raises(error, match=place):
        train(settings(copied, run={"steps": 6}))
    assert (copied / "history.jsonl").read_bytes() == history
    assert train(settings(copied), resume=2).outcome.from_step == 2


def test_half_a_save_is_never_loaded_and_is_named(copied):
    half = copied / "checkpoints" / ".saving-6-0123"
    shutil.copytree(last(copied), half)
    ran = train(settings(copied, run={"steps": 6}))
    assert ran.outcome.from_step == 4
    assert any(str(half) in note and "half a save" in note for note in ran.notes())
    assert half.is_dir()
    with pytest.raises(InvalidInput, match="never came to an end"):
        checkpoint_folders.verify(half)


def test_a_save_that_dies_before_any_of_its_operations_is_whole_or_not_there(tmp_path):
    """Each operation on the disk in turn; what has its name is read back by the program itself."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.trainer.crashing_saves", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["code"] for each in told] == [DIED] * (len(told) - 1) + [0]
    assert len(told) > 20
    named = [each["whole"] for each in told]
    assert named == sorted(named)  # once it has its name, it keeps it
    assert named.count(1) > 1  # the name comes before the file that names the latest
    assert all(each["left"] + each["whole"] == 1 for each in told[3:])  # the first three make the folder


def test_a_checkpoint_that_was_not_recorded_before_a_crash_is_recorded_by_who_goes_on_from_it(copied):
    """The crash came between the folder's name and the ledger."""
    lines = (copied / "history.jsonl").read_text().splitlines()
    kept = [line for line in lines if json.loads(line)["kind"] not in {"select", "complete"}]
    (copied / "history.jsonl").write_text("\n".join(kept[:-1]) + "\n" + kept[-1][: len(kept[-1]) // 2])
    assert json.loads(kept[-1])["kind"] == "save"
    shutil.rmtree(copied / "spool")
    with FakeLedger() as ledger:
        train(settings(copied, run={"steps": 5}), address=ledger.address)
    kinds = [e.type for e in ledger.events]
    committed = ledger.of_type("checkpoint.committed")
    assert [(e.payload["attempt"], e.payload["step"]) for e in committed] == [(1, 4), (2, 5)]
    assert kinds.index("checkpoint.committed") < kinds.index("attempt.started")
    resumed = ledger.of_type("attempt.started")[0].payload["resumed_from"]
    assert resumed == {"step": 4, "attempt": 1, "digest": committed[0].payload["digest"]}


def test_the_latest_is_told_by_the_folders_where_the_file_that_names_it_is_out_of_date(copied):
    (copied / "checkpoints" / "latest.txt").write_text("global_step_2\n")
    latest = checkpoint_folders.find_latest(copied)
    assert latest is not None
    assert latest.step == 4


@pytest.mark.parametrize(
    ("model", "place"),
    [
        ({"hidden_size": 64}, r"model.embed_tokens.weight is float32 \[\d+, 32\] in the checkpoint"),
        ({"layers": 2}, r"model.layers.1\S+ is not in the checkpoint"),
        ({"tied": False}, "lm_head.weight is not in the checkpoint"),
        ({"dtype": "bfloat16"}, "bfloat16"),
    ],
    ids=str,
)
def test_a_checkpoint_of_another_model_is_refused(copied, model, place):
    with pytest.raises(InvalidInput, match=place) as raised:
        train(settings(copied, run={"steps": 6}, model=model))
    assert "another model" in raised.value.message


def test_a_checkpoint_of_another_run_is_refused(copied):
    with pytest.raises(InvalidInput, match="of the run 'tiny', not 'other'"):
        train(settings(copied, run={"id": "other", "steps": 6}))


def test_a_setting_that_changed_is_told(copied):
    ran = train(settings(copied, run={"steps": 6}, algorithm={"learning_rate": 1e-3}))
    assert any("settings are not those" in note for note in ran.notes())


def test_weights_moments_and_generators_come_back_as_they_were(trained):
    loaded = models.load(trained.settings.model)
    policy = Policy(loaded.model, trained.settings.algorithm, Team(loaded.device))
    before = {name: t.detach().clone() for name, t in policy.named.items()}
    torch.manual_seed(7)
    restored = checkpoints.load(last(trained.folder), policy, seed=42)
    assert restored.rng
    assert restored.state["step"] == 4
    state = torch.get_rng_state()
    assert not all(t.equal(before[name]) for name, t in policy.named.items())
    assert all(float(moments["step"]) == 4 for moments in policy.optimizer.state.values())
    assert any(bool(moments["exp_avg"].any()) for moments in policy.optimizer.state.values())
    torch.manual_seed(8)
    checkpoints.load(last(trained.folder), policy, seed=42)
    assert torch.get_rng_state().equal(state)


def test_old_checkpoints_are_deleted_and_each_deletion_is_recorded(tmp_path):
    with FakeLedger() as ledger:
        ran = train(
            settings(tmp_path, run={"steps": 6, "checkpoint_interval": 1, "checkpoints_kept": 1}),
            address=ledger.address,
        )
    assert ran.outcome.selected is not None
    there = {one.step for one in checkpoint_folders.found(tmp_path)}
    assert there == set(ran.outcome.steps_saved) == {ran.outcome.selected["step"], 6}
    deleted = [e.payload["step"] for e in ledger.of_type("checkpoint.deleted")]
    assert sorted(deleted) == sorted({1, 2, 3, 4, 5, 6} - there)
    assert not checkpoint_folders.leftovers(tmp_path)


def test_an_attempt_saves_a_step_once(tmp_path):
    for attempt in (1, 2):
        path = checkpoint_folders.begin(tmp_path, 1)
        (path / "some").write_bytes(b"x")
        checkpoint_folders.finish(path, tmp_path, 1, attempt)
    path = checkpoint_folders.begin(tmp_path, 1)
    (path / "some").write_bytes(b"x")
    with pytest.raises(LedgerError, match="there already"):
        checkpoint_folders.finish(path, tmp_path, 1, 2)


def test_a_checkpoint_of_another_model_starts_no_attempt(copied):
    history = (copied / "history.jsonl").read_bytes()
    with pytest.raises(InvalidInput):
        train(settings(copied, run={"steps": 6}, model={"layers": 2}))
    assert (copied / "history.jsonl").read_bytes() == history


def written_over(folder: Path) -> None:
    """Another checkpoint in its place, whole by its own manifest: only the digest that was recorded tells it apart."""
    (folder / "huggingface" / "chat_template.jinja").write_text("changed")
    (folder / "manifest.json").unlink()
    files = [file.model_dump() for file in read_files(folder).files]
    (folder / "manifest.json").write_text(json.dumps({"schema_version": 1, "files": files}))


def test_what_was_written_over_since_it_was_recorded_starts_no_attempt_and_no_export(copied):
    history = (copied / "history.jsonl").read_bytes()
    written_over(last(copied))
    with FakeLedger() as ledger:
        with pytest.raises(Broken, match="is whole, but not what was recorded") as raised:
            train(settings(copied, run={"steps": 5}), address=ledger.address)
        with pytest.raises(Broken, match="is whole, but not what was recorded"):
            export_only(settings(copied), 4, copied / "out", Options(address=ledger.address))
        assert ledger.events == []
        assert raised.value.details["found"] == read_files(last(copied)).digest
        assert (copied / "history.jsonl").read_bytes() == history
        # The control: the save before it, which nobody touched.
        assert train(settings(copied, run={"steps": 3}), address=ledger.address, resume=2).outcome.from_step == 2
    loaded = ledger.of_type("checkpoint.loaded")[0].payload
    assert loaded["digest"] == read_files(copied / "checkpoints" / "global_step_2").digest


def test_a_run_whose_history_is_lost_goes_on_from_a_checkpoint_that_is_whole_and_records_what_it_is(copied):
    (copied / "history.jsonl").unlink()
    written_over(last(copied))
    with FakeLedger() as ledger:
        assert train(settings(copied, run={"steps": 5}), address=ledger.address).outcome.from_step == 4
    loaded, [again] = ledger.of_type("checkpoint.loaded")[0].payload, ledger.of_type("checkpoint.committed")[2:3]
    assert again.payload["step"] == 4
    assert loaded["digest"] == again.payload["digest"] == read_files(last(copied)).digest


def test_a_checkpoint_beyond_the_steps_that_are_asked_for_is_refused(copied):
    with pytest.raises(InvalidInput, match="global_step_4 is beyond the 3 steps that are asked for"):
        train(settings(copied, run={"steps": 3}), resume=4)
    assert train(settings(copied, run={"steps": 4}), resume=4).steps("step") == []


def test_the_folder_of_weights_on_their_way_to_an_engine_is_gone_when_a_run_ended_well(tmp_path):
    class Reads(TransformersEngine):
        def load(self, weights):
            assert (weights.folder() / "model.safetensors.index.json").exists()
            super().load(weights)

    def opened(_, loaded):
        return Reads(loaded.model.config, dtype=loaded.model.dtype, device=loaded.device, ends=loaded.stop_ids)

    train(settings(tmp_path, run={"steps": 1}), opening=opened)
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_dir()) == ["checkpoints", "rollouts", "spool"]
