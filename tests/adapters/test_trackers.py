"""Histories of W&B and runs of MLflow: the same steps from every form, and each tracker's run an attempt."""

from __future__ import annotations

import json
import shutil

import pytest

from ledger.core.errors import InvalidInput
from services.adapters.backfill.mlflow_stores import plan_mlflow
from services.adapters.backfill.tracked import Part, whole
from services.adapters.backfill.wandb_histories import plan_wandb
from tests.adapters.builders import ME, VECTORS, events, ids, mlflow_database, wandb_file

FIRST = VECTORS / "wandb" / "first.jsonl"
SECOND = VECTORS / "wandb" / "second.csv"
FOLDER = VECTORS / "mlflow" / "0a1b2c"


def wandb(*paths, **options):
    return plan_wandb(paths, run_id="r", by=ME, **options)


def mlflow(*paths, chosen=()):
    return plan_mlflow(paths, chosen, run_id="r", by=ME)


def steps(found):
    return [
        (s["attempt"], s["steps"][0]["step"], s["steps"][0]["metrics"].get("policy/raw_grad_norm"))
        for s in events(found, "steps.logged")
    ]


class TestWandb:
    def test_a_restart_is_another_history_and_another_attempt(self):
        found = wandb(SECOND, FIRST)
        assert steps(found) == [(1, 1, "NaN"), (1, 2, "-Infinity"), (2, 2, 1.5), (2, 3, None), (2, 4, "Infinity")]
        assert events(found, "attempt.started")[1]["resumed_from"] == {"step": 1}

    def test_the_step_is_the_trainers_and_not_the_count_of_calls(self):
        assert wandb(FIRST).account.last_step == 2

    def test_rows_of_one_step_that_do_not_contradict_are_one(self):
        first = events(wandb(FIRST), "steps.logged")[0]["steps"][0]["metrics"]
        assert (first["reward/avg_raw_reward"], first["vllm/median_running_reqs"]) == (0.41, 24.0)

    def test_rows_of_no_step_and_texts_are_left_out_and_counted(self):
        account = wandb(FIRST).account
        assert account.left_out == {
            "rows that belong to no step of training": 1,
            "metric values that are no numbers": 1,
        }
        assert [u.place for u in account.unread] == ["first.jsonl:5"]

    def test_w_and_bs_own_clock_is_known(self):
        assert events(wandb(FIRST), "steps.logged")[0]["steps"][0]["logged_at"] == "2026-07-27T08:00:00.500000Z"

    def test_an_offline_runs_file_makes_the_same_events_as_its_exported_history(self, tmp_path):
        lines = FIRST.read_text().splitlines()[:-1]
        rows = [{k: v for k, v in json.loads(line).items() if k != "_step"} for line in lines]
        exported = tmp_path / "rows.jsonl"
        exported.write_text("\n".join(lines) + "\n")
        assert ids(wandb(wandb_file(tmp_path / "run.wandb", rows))) == ids(wandb(exported))

    def test_records_that_cross_the_blocks_of_an_offline_file_are_whole(self, tmp_path):
        rows = [{"trainer/global_step": n, "a": float(n), "text": "x" * 30_000} for n in range(1, 8)]
        found = wandb(wandb_file(tmp_path / "run.wandb", rows))
        assert [s["steps"][0]["metrics"]["a"] for s in events(found, "steps.logged")] == [float(n) for n in range(1, 8)]

    def test_an_offline_runs_folder_stands_for_its_file(self, tmp_path):
        path = wandb_file(tmp_path / "run-1.wandb", [{"trainer/global_step": 1, "a": 1.0}])
        assert ids(wandb(tmp_path)) == ids(wandb(path))

    def test_a_folder_without_a_run_is_refused(self, tmp_path):
        with pytest.raises(InvalidInput, match=r"holds no \.wandb file"):
            wandb(tmp_path)

    def test_an_offline_file_that_is_cut_off_is_read_up_to_there(self, tmp_path):
        rows = [{"trainer/global_step": n, "a": float(n)} for n in range(1, 4)]
        assert wandb(wandb_file(tmp_path / "run.wandb", rows, cut=5)).account.last_step == 2

    def test_a_table_without_a_step_is_refused(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("a,b\n1,2\n")
        with pytest.raises(InvalidInput, match="no column trainer/global_step"):
            wandb(path)

    def test_a_history_of_nothing_is_refused(self, tmp_path):
        path = tmp_path / "t.jsonl"
        path.write_text('{"_timestamp": 1.0}\n')
        with pytest.raises(InvalidInput) as caught:
            wandb(path)
        assert caught.value.reason == "NO_ROWS"


class TestMlflow:
    def test_a_runs_folder_gives_steps_settings_and_the_faults_with_their_places(self):
        found = mlflow(FOLDER)
        assert steps(found) == [(1, 1, "NaN"), (1, 2, "Infinity")]
        assert events(found, "config.recorded")[0]["settings"] == {"trainer.algorithm.use_tis": "True"}
        assert [u.place for u in found.account.unread] == ["avg_raw_reward:3"]

    def test_values_of_the_machine_have_steps_of_their_own_and_are_left_out(self):
        assert sum(mlflow(FOLDER).account.left_out.values()) == 2

    def test_the_folder_is_found_from_the_store_and_its_digest_is_of_its_files(self, tmp_path):
        store = tmp_path / "mlruns"
        shutil.copytree(FOLDER, store / "1" / "0a1b2c")
        found = mlflow(store)
        assert ids(found) == ids(mlflow(FOLDER))
        assert found.account.documents[0].sha256 == mlflow(FOLDER).account.documents[0].sha256

    def test_the_database_says_nan_and_infinity_in_its_own_way(self, tmp_path):
        points = [
            ("a", "reward/avg_raw_reward", 0.41, 1_785_139_200_000, 1, False),
            ("a", "policy/raw_grad_norm", 0.0, 1_785_139_200_000, 1, True),
            ("a", "reward/avg_raw_reward", 0.47, 1_785_139_800_000, 2, False),
            ("a", "policy/raw_grad_norm", 1.7976931348623157e308, 1_785_139_800_000, 2, False),
        ]
        found = mlflow(mlflow_database(tmp_path / "mlflow.db", points))
        assert steps(found) == [(1, 1, "NaN"), (1, 2, "Infinity")]

    def test_each_run_of_a_store_is_an_attempt_in_the_order_of_their_starts(self, tmp_path):
        points = [("z", "a", 0.1, 1000, 1, False), ("z", "a", 0.2, 2000, 2, False), ("b", "a", 0.3, 9000, 2, False)]
        path = mlflow_database(tmp_path / "mlflow.db", points)
        assert [(a, s) for a, s, _ in steps(mlflow(path))] == [(1, 1), (1, 2), (2, 2)]
        assert [(a, s) for a, s, _ in steps(mlflow(path, chosen=["z"]))] == [(1, 1), (1, 2)]

    def test_a_value_that_was_logged_again_with_its_step_was_redone(self, tmp_path):
        points = [("a", "m", 0.1, 1000, 1, False), ("a", "m", 0.2, 2000, 2, False), ("a", "m", 0.9, 3000, 2, False)]
        found = mlflow(mlflow_database(tmp_path / "mlflow.db", points))
        assert [(a, s) for a, s, _ in steps(found)] == [(1, 1), (1, 2), (2, 2)]

    def test_the_database_is_not_changed_by_reading_it(self, tmp_path):
        path = mlflow_database(tmp_path / "mlflow.db", [("a", "m", 0.1, 1000, 1, False)])
        before = path.read_bytes()
        mlflow(path)
        assert path.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["mlflow.db"]

    @pytest.mark.parametrize("content", [b"", b"text", b"SQLite format 3\x00garbage"], ids=["empty", "text", "torn"])
    def test_a_file_that_is_no_store_is_refused(self, tmp_path, content):
        path = tmp_path / "mlflow.db"
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match="is no"):
            mlflow(path)

    def test_a_run_that_the_store_does_not_have_is_named(self, tmp_path):
        path = mlflow_database(tmp_path / "mlflow.db", [("a", "m", 0.1, 1000, 1, False)])
        with pytest.raises(InvalidInput, match="no run b"):
            mlflow(path, chosen=["b"])


def test_parts_of_a_step_are_joined_until_one_contradicts():
    parts = [Part(1, {"a": 1.0}), Part(1, {"b": 2.0}), Part(1, {"a": 1.0}), Part(1, {"a": 3.0}), Part(2, {"a": 4.0})]
    assert [(p.step, p.metrics) for p in whole(parts)] == [(1, {"a": 1.0, "b": 2.0}), (1, {"a": 3.0}), (2, {"a": 4.0})]
