"""`ledger export model` and `ledger export verify`: from a checkpoint to a place, and what the ledger knows of it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from ledger.client.exports.indexes import INDEX
from ledger.client.exports.places import Folder
from ledger.client.recording.files import read_files
from tests.client.exports.conftest import s3, s3_address  # noqa: F401  # fixtures
from tests.exporter import checkpoints
from tests.exporter.checkpoints import RUN, checkpoint
from tests.exporter.test_signatures import write_keys


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return checkpoint(tmp_path / "run")


def tell(own, tmp_path: Path, *facts: tuple[str, dict]) -> None:
    path = tmp_path / "facts.json"
    said = [{"type": type_, "payload": payload} for type_, payload in facts]
    path.write_text(json.dumps({"about": "a run", "facts": said}))
    assert own("run", "record", path).code == 0


def declare(own, tmp_path: Path, folder: Path, digest: str | None = None) -> None:
    """The ledger knows the run, and its checkpoint."""
    saved = {"run_id": RUN, "attempt": 2, "step": 40, "digest": digest or read_files(folder).digest}
    tell(
        own,
        tmp_path,
        ("run.declared", {"run_id": RUN, "rl_start": None, "sources": []}),
        ("checkpoint.committed", saved),
    )


def exports(own) -> list[dict]:
    return own("run", "show", RUN, "--json").json["exports"]


def events(own, export_id: str) -> list[str]:
    rows = own("log", "tail", "-n", 50, "--json").json
    return [row["header"]["type"] for row in rows if row["header"]["stream"] == f"export/{export_id}"]


class TestModel:
    def test_without_a_ledger_nothing_is_asked_and_nothing_told(self, run, saved, tmp_path):
        got = run("export", "model", saved, "--to", tmp_path / "out", "--no-record")
        assert got.code == 0, got.err
        assert "no ledger was told" in got.err
        assert "24 tensors, byte for byte with the checkpoint's" in got.out
        assert (tmp_path / "out" / INDEX).exists()
        assert not Path(".ledger").exists()

    def test_the_ledger_knows_it_as_verified(self, own, saved, tmp_path):
        declare(own, tmp_path, saved)
        told = own("export", "model", saved, "--to", tmp_path / "out", "--json").json
        digest = read_files(saved).digest
        assert told["export_id"] == f"{RUN}-step-40-{digest[:8]}"
        assert [e["type"] for e in told["recorded"]] == ["export.started", "export.completed", "export.verified"]
        (found,) = exports(own)
        assert (found["id"], found["status"], found["route"]) == (told["export_id"], "verified", "offline")
        assert (found["checkpoint"]["step"], found["checkpoint"]["digest"]) == (40, digest)
        assert found["digest"] == read_files(tmp_path / "out").digest == told["digest"]
        assert found["completed"]["checkpoint_digest_before"] == found["completed"]["checkpoint_digest_after"] == digest
        assert found["flags"] == []

    def test_the_same_again_is_safe_and_says_so(self, own, saved, tmp_path):
        declare(own, tmp_path, saved)
        first = own("export", "model", saved, "--to", tmp_path / "out", "--json").json
        again = own("export", "model", saved, "--to", tmp_path / "out")
        assert again.code == 0
        assert "as it was exported before; all of it was recorded already" in again.err
        second = own("export", "model", saved, "--to", tmp_path / "out", "--json").json
        assert [e["pos"] for e in second["recorded"]] == [e["pos"] for e in first["recorded"]]

    def test_another_place_is_recorded_beside_it(self, own, saved, tmp_path):
        declare(own, tmp_path, saved)
        first = own("export", "model", saved, "--to", tmp_path / "one", "--json").json
        second = own("export", "model", saved, "--to", tmp_path / "two", "--json").json
        assert first["export_id"] == second["export_id"]
        assert [e["already_recorded"] for e in second["recorded"]] == [True, False, False]
        assert exports(own)[0]["status"] == "verified"

    def test_a_route_is_another_one_only_with_a_reason(self, own, saved, tmp_path):
        declare(own, tmp_path, saved)
        assert "--route-note" in own("export", "model", saved, "--to", tmp_path / "out", "--route", "rerun").err
        why = "The trainer's export job called it."
        arguments = ("--route", "rerun", "--route-note", why, "--id", "mine")
        assert own("export", "model", saved, "--to", tmp_path / "out", *arguments).code == 0
        (found,) = exports(own)
        assert (found["id"], found["route"], found["started"]["route_note"]) == ("mine", "rerun", why)

    def test_what_fails_is_recorded_with_its_stage_and_a_later_success_stands(self, own, saved, tmp_path):
        declare(own, tmp_path, saved)
        (tmp_path / "out").mkdir()
        (tmp_path / "out/mine.txt").write_text("x")
        got = own("export", "model", saved, "--to", tmp_path / "out")
        assert got.code == 5
        assert "holds other files already: mine.txt" in got.err
        (found,) = exports(own)
        assert found["status"] == "failed"
        assert "holds other files" in found["failure"]
        assert own("export", "model", saved, "--to", tmp_path / "out").code == 5
        assert len(events(own, found["id"])) == 4, "tried again after a failure: it started, and failed, once more"
        assert own("export", "model", saved, "--to", tmp_path / "out", "--replace").code == 0
        assert exports(own)[0]["status"] == "verified"

    def test_a_failed_check_is_recorded_by_its_name(self, own, tmp_path):
        folder = checkpoint(tmp_path, seed=99)
        declare(own, tmp_path, folder)
        got = own("export", "model", folder, "--to", tmp_path / "out", "--base", checkpoints.base(tmp_path / "base"))
        assert got.code == 3
        assert "differs_from_base" in got.err
        assert not (tmp_path / "out").exists()
        said = own("log", "tail", "--type", "export.failed", "--content", "--json").json[-1]["payload"]
        assert (said["stage"], [c["name"] for c in said["failed_checks"]]) == ("verify", ["differs_from_base"])

    def test_other_bytes_than_the_ledger_knows_are_refused_until_they_are_forced(self, own, saved, tmp_path):
        declare(own, tmp_path, saved, digest="a" * 64)
        got = own("export", "model", saved, "--to", tmp_path / "out")
        digest = read_files(saved).digest
        assert got.code == 5
        assert digest in got.err
        assert "a" * 64 in got.err
        assert exports(own) == []
        forced = own("export", "model", saved, "--to", tmp_path / "out", "--force")
        assert forced.code == 0
        assert "WARNING" in forced.err

    def test_a_run_that_nobody_declared_is_told(self, own, saved, tmp_path):
        got = own("export", "model", saved, "--to", tmp_path / "out")
        assert got.code == 0
        assert f"knows no run {RUN}" in got.err

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ((), "give --run"),
            (("--run", "x"), "give --step"),
            (("--no-record", "--signature", "x.sig"), "give the key with --sign"),
        ],
    )
    def test_what_a_folder_does_not_say_must_be_said(self, run, saved, tmp_path, arguments, told):
        plain = checkpoints.moved(saved / "weights", tmp_path / "plain")
        checkpoints.moved(saved / "huggingface", plain / "huggingface")
        got = run("export", "model", plain, "--to", tmp_path / "out", *arguments)
        assert (got.code, got.out) == (2, "")
        assert told in got.err
        assert not (tmp_path / "out").exists()

    def test_a_run_that_contradicts_the_checkpoint_is_a_usage_error(self, run, saved, tmp_path):
        assert run("export", "model", saved, "--to", tmp_path / "out", "--run", "other").code == 2

    def test_a_ledger_that_goes_away_leaves_the_export_and_says_what_to_do(self, own, saved, tmp_path, monkeypatch):
        from ledger.core.errors import Unavailable  # noqa: PLC0415
        from services.cli import export_records  # noqa: PLC0415  # its method is replaced below

        declare(own, tmp_path, saved)
        record = export_records.Records.record

        def gone(self, *told):
            if told[0][0] == "export.completed":
                raise Unavailable("nobody answers", remedy="Repeat.")
            record(self, *told)

        with monkeypatch.context() as patch:
            patch.setattr(export_records.Records, "record", gone)
            got = own("export", "model", saved, "--to", tmp_path / "out")
        assert got.code == 6
        assert "The same command again records the rest" in got.err
        assert own("export", "model", saved, "--to", tmp_path / "out").code == 0
        assert exports(own)[0]["status"] == "verified"

    def test_a_hostile_pickle_does_not_run_and_is_recorded_as_a_failure(self, own, saved, tmp_path):
        declare(own, tmp_path, saved)
        mark = tmp_path / "ran"
        (saved / "weights/.metadata").write_bytes(b"cposix\nsystem\n(S'touch " + os.fsencode(mark) + b"'\ntR.")
        checkpoints.seal(saved)
        got = own("export", "model", saved, "--to", tmp_path / "out", "--force")
        assert (got.code, mark.exists(), (tmp_path / "out").exists()) == (1, False, False)
        assert "posix.system" in got.err
        assert exports(own)[0]["status"] == "failed"

    def test_an_interrupt_is_recorded_and_leaves_nothing(self, own, saved, tmp_path, monkeypatch):
        declare(own, tmp_path, saved)

        def interrupted(self, name, source):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Folder, "put", interrupted)
            assert own("export", "model", saved, "--to", tmp_path / "out").code == 130
        assert not (tmp_path / "out").exists()
        assert exports(own)[0]["status"] == "failed"

    def test_a_key_that_cannot_sign_is_told_before_anything_is_read(self, run, saved, tmp_path):
        private, _ = write_keys(tmp_path, ed25519.Ed25519PrivateKey.generate())
        got = run("export", "model", tmp_path / "none", "--to", tmp_path / "out", "--no-record", "--sign", private)
        assert got.code == 1
        assert "Ed25519" in got.err

    def test_an_extra_that_is_missing_is_named(self, run, saved, tmp_path, monkeypatch):
        from services.exporter import architectures  # noqa: PLC0415  # what it looks for is replaced

        monkeypatch.setattr(architectures, "find_spec", lambda name: None if name == "torch" else object())
        error = run("export", "model", saved, "--to", tmp_path / "out", "--json").error
        assert (error["reason"], error["details"]) == ("EXTRA_MISSING", {"extra": "train"})


class TestVerify:
    @pytest.fixture
    def exported(self, own, saved, tmp_path) -> str:
        declare(own, tmp_path, saved)
        return own("export", "model", saved, "--to", tmp_path / "out", "--json").json["export_id"]

    def test_nine_checks_and_the_facts_without_a_ledger(self, run, tmp_path):
        base = checkpoints.base(tmp_path / "base")
        other = checkpoints.base(tmp_path / "other", seed=3)
        got = run("export", "verify", other, "--base", base)
        assert got.code == 0
        assert len([line for line in got.out.splitlines() if " passed " in line or " not checked " in line]) == 9
        assert "21,696 (22K)" in got.out
        assert "temperature 0.7" in got.out
        assert not Path(".ledger").exists()

    def test_a_failure_names_tensor_and_file_and_the_exit_code_is_three(self, run, saved, tmp_path):
        assert run("export", "model", saved, "--to", tmp_path / "out", "--no-record").code == 0
        index = tmp_path / "out" / INDEX
        said = json.loads(index.read_bytes())
        said["weight_map"]["ghost.weight"] = "model-00001-of-00001.safetensors"
        index.write_text(json.dumps(said))
        got = run("export", "verify", tmp_path / "out", "--json")
        assert got.code == 3
        failed = [c for c in json.loads(got.out)["checks"] if c["outcome"] == "failed"]
        assert [(c["name"], c["tensor"], c["file"]) for c in failed] == [
            ("weight_map_complete", "ghost.weight", "model-00001-of-00001.safetensors")
        ]

    def test_a_type_that_was_not_expected(self, run, tmp_path):
        got = run("export", "verify", checkpoints.base(tmp_path / "base"), "--expect-dtype", "BF16")
        assert got.code == 3
        assert "base_tensors" in got.err

    def test_recorded_digests_are_compared_and_the_verdict_is_recorded(self, own, exported, tmp_path):
        again = own("export", "verify", tmp_path / "out", "--export", exported, "--record", "--json")
        assert again.code == 0, again.err
        checks = {c["name"]: c["outcome"] for c in json.loads(again.out)["checks"]}
        assert checks["file_digests"] == "passed"
        assert json.loads(again.out)["recorded"][0]["type"] == "export.verified"
        (tmp_path / "out/config.json").write_text("{}")
        got = own("export", "verify", tmp_path / "out", "--export", exported, "--record")
        assert got.code == 3
        assert "Recorded as export.failed" in got.err
        assert exports(own)[0]["status"] == "failed"

    def test_a_verdict_that_the_ledger_refuses_is_told(self, own, exported, tmp_path):
        """Somebody completed the export again, as another one: what is verified is not that."""
        tell(
            own,
            tmp_path,
            (
                "export.completed",
                {
                    "export_id": exported,
                    "digest": "b" * 64,
                    "files": [file.model_dump() for file in read_files(tmp_path / "out").files],
                },
            ),
        )
        got = own("export", "verify", tmp_path / "out", "--export", exported, "--record")
        assert got.code == 5
        assert "was completed as" in got.err

    def test_an_export_that_the_ledger_does_not_know(self, own, exported, tmp_path):
        assert own("export", "verify", tmp_path / "out", "--export", "other").code == 4

    def test_a_signature_is_checked_and_told(self, run, saved, tmp_path):
        private, public = write_keys(tmp_path, ec.generate_private_key(ec.SECP256R1()))
        assert run("export", "model", saved, "--to", tmp_path / "out", "--no-record", "--sign", private).code == 0
        assert (
            run("export", "verify", tmp_path / "out", "--public-key", public, "--json").json["signature_holds"] is True
        )
        (tmp_path / "out/tokenizer.json").write_text("changed")
        got = run("export", "verify", tmp_path / "out", "--public-key", public)
        assert got.code == 3
        assert "tokenizer.json" in got.out

    def test_a_place_in_a_store(self, run, tmp_path, s3, saved):  # noqa: F811  # a fixture
        url = f"{s3}/commands/step-40"
        assert run("export", "model", saved, "--to", url, "--no-record", "--max-shard-bytes", 30_000).code == 0
        told = run("export", "verify", url, "--base", checkpoints.base(tmp_path / "base"), "--json").json
        assert told["verified"] is True
        assert len(told["shards"]) > 2

    def test_names_that_would_steer_a_terminal_are_told_harmlessly(self, run, tmp_path):
        folder = checkpoints.base(tmp_path / "base")
        shutil.move(folder / "model.safetensors", folder / "model-\x1b[31m.safetensors")
        (folder / INDEX).write_text(
            json.dumps({"metadata": {"total_size": 1}, "weight_map": {"\x1b[31mx": "a\x1b[2J"}})
        )
        got = run("export", "verify", folder)
        assert got.code == 3
        assert "\x1b" not in got.out + got.err

    @pytest.mark.parametrize("arguments", [("--record",), ("--signature", "x")])
    def test_what_needs_another_option_says_so(self, run, tmp_path, arguments):
        assert run("export", "verify", tmp_path, *arguments).code == 2
