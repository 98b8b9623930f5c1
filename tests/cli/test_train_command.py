"""The command from a file of settings to a ledger that was told everything, and judged what was decided."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from services.trainer.settings import read_settings
from tests.trainer.test_distributed import config

STEPS = {"run": {"steps": 6, "checkpoint_interval": 2}, "export": {"enabled": True}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return config(tmp_path / "run", **STEPS)


def test_a_line_a_step_and_in_the_end_where_all_of_it_is(run, file):
    got = run("train", file)
    assert got.code == 0, got.err
    lines = got.out.splitlines()
    assert [line.split()[:2] for line in lines[:6]] == [["step", f"{n}/6"] for n in range(1, 7)]
    assert all(name in lines[0] for name in ("reward", "entropy", "grad norm", "loss"))
    told = {line.partition("  ")[0]: line for line in lines[6:]}
    assert {"run", "attempt", "steps", "checkpoints", "selected", "export", "recorded"} <= told.keys()
    assert "ledger sync" in told["recorded"]
    assert "trailing-ema" in told["selected"]
    assert "\x1b" not in got.out


def test_with_json_every_line_is_an_object(run, file):
    got = run("train", file, "--json", "--steps", "4")
    told = [json.loads(line) for line in got.out.splitlines()]
    assert [each["step"] for each in told if each["kind"] == "step"] == [1, 2, 3, 4]
    assert told[0]["kind"] == "begin"
    assert told[-1]["kind"] == "end"
    assert told[-1]["selected"]["step"] == 4
    assert told[-1]["export"]["dtypes"] == ["F32"]


def test_a_ledger_takes_all_of_it_and_comes_to_the_same_selection(own, file):
    got = own("train", file, "--json")
    assert got.code == 0, got.err
    end = json.loads(got.out.splitlines()[-1])
    assert end["refused"] == []
    shown = own("run", "show", "tiny", "--json").json["run"]
    selection = shown["selections"][0]
    assert selection["recomputed"] == "agrees"
    assert selection["step"] == end["selected"]["step"]
    assert selection["computed_ema"] == pytest.approx(end["selected"]["ema"])
    assert [c["status"] for c in shown["checkpoints"]] == ["committed"] * 3
    exports = own("lineage", "run/tiny", "--json")
    assert exports.code == 0
    assert end["export"]["export_id"] in exports.out


def test_what_waited_is_sent_by_sync_and_is_all_there(own, run, file):
    assert run("train", file).code == 0
    sent = own("sync", file.parent / "run" / "spool", "--json").json
    assert sent[0]["refused"] == []
    assert sent[0]["left"] == 0
    shown = own("run", "show", "tiny", "--json").json["run"]
    assert shown["selections"][0]["recomputed"] == "agrees"


def test_a_second_start_goes_on_and_a_third_has_nothing_to_do(run, file):
    assert run("train", file, "--steps", "2").code == 0
    more = run("train", file)
    assert "attempt 2, from step 2" in more.err
    assert run("train", file).out.splitlines()[1].endswith("none: the run was complete")


def test_a_rerun_export_says_where_it_is(run, file, tmp_path):
    assert run("train", file).code == 0
    got = run("train", file, "--export-only", "4", "--to", tmp_path / "out", "--json").json
    assert got["step"] == 4
    assert (tmp_path / "out" / "model.safetensors.index.json").exists()
    error = run("train", file, "--export-only", "3", "--to", tmp_path / "other", "--json").error
    assert error["reason"] == "NOT_FOUND"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--resume", "latest"], 2, "--resume"),
        (["--export-only", "2"], 2, "--to belong together"),
        (["--resume", "5"], 4, "no checkpoint of step 5"),
        (["--receipt", "none.json"], 1, "none.json"),
    ],
)
def test_what_cannot_be_is_said_with_the_exit_code_for_it(run, file, arguments, code, said):
    got = run("train", file, *arguments)
    assert (got.code, got.out) == (code, "")
    assert said in got.err


def test_settings_that_are_wrong_are_named_by_their_place(run, tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text('[run]\nid = "x"\nfolder = "y"\nsteps = 0\n')
    got = run("train", file)
    assert got.code == 1
    assert "run.steps" in got.err
    assert run("train", tmp_path / "none.toml").code == 1


PROGRAM = """
import sys
sys.modules["torch"] = None
from services.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_where_torch_is_missing_the_help_works_and_the_command_says_which_extra_to_install(file):
    def without_torch(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False, cwd=file.parent
        )

    assert without_torch("train", "--help").returncode == 0
    got = without_torch("train", str(file))
    assert got.returncode == 2
    assert "EXTRA_MISSING" in got.stderr
    assert "atlas-ledger[train]" in got.stderr


@pytest.mark.slow
def test_several_processes_are_told_of_as_one(own, file):
    got = own("train", file, "--processes", "2", "--json")
    assert got.code == 0, got.err
    told = [json.loads(line) for line in got.out.splitlines()]
    assert [each["step"] for each in told if each["kind"] == "step"] == [1, 2, 3, 4, 5, 6]
    assert told[-1]["refused"] == []
    assert own("run", "show", "tiny", "--json").json["run"]["selections"][0]["recomputed"] == "agrees"


def test_the_example_that_is_printed_is_a_config_that_it_takes(run, tmp_path):
    got = run("train", "--example")
    assert got.code == 0
    (tmp_path / "run.toml").write_text(got.out)
    assert read_settings(tmp_path / "run.toml").run.id == "tiny-digits"
