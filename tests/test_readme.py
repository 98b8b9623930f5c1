"""The README says what is true: its blocks run, its tables are the code's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.core.errors import REASONS
from services.server.app import in_process
from services.server.settings import Settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
SAMPLES = ROOT / "services" / "cli" / "demo_data"


def block(after: str) -> str:
    """The first fenced block after a marker."""
    found = re.search(re.escape(after) + r"\n```\w+\n(.*?)```", README, re.DOTALL)
    assert found, f"README.md has no block after {after}"
    return found[1]


def run_block(text: str, tmp_path: Path) -> str:
    """What a block of commands prints in a clone, with the environment that the README's first command makes."""
    clone = tmp_path / "clone"
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / "services").symlink_to(ROOT / "services")
    # Stands for that environment; the tests may run in another one.
    (clone / ".venv" / "bin" / "activate").write_text('PATH="$PWD/.venv/bin:$PATH"\n')
    ledger = clone / ".venv" / "bin" / "ledger"
    ledger.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m services.cli "$@"\n')
    ledger.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("LEDGER_")}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=clone, env=kept | {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tour_runs_as_it_stands(tmp_path: Path) -> None:
    said = run_block(block("<!-- tour -->"), tmp_path)
    assert len(re.findall(r"^quality +Good$", said, re.MULTILINE)) == 2, "before the defect, and at the size before it"
    assert "Some issues at best: 1 confirmed defect open (units)" in said
    assert "Withheld: 1 confirmed defect" in said
    assert "exit 4: no such source then" in said
    assert "applicability: unknown -> stale" in said, "the impact of other rules"
    promoted = re.findall(r"^(\S+) is in force from size \d+ on; the promotion moved 1 source", said, re.MULTILINE)
    assert promoted == ["atlas-page-1", "ledger-1"]


@pytest.mark.slow
def test_the_tour_of_training_and_exporting_runs_as_it_stands(tmp_path: Path) -> None:
    activate, install, *commands = block("<!-- training-tour -->").splitlines()
    assert install.startswith("pip install"), "the tests run where it is installed"
    said = run_block("\n".join([activate, *commands]), tmp_path)
    assert re.search(r"^run +tiny-digits$", said, re.MULTILINE)
    assert re.search(r"^record +complete", said, re.MULTILINE)
    assert re.search(r"^trained +[1-9]", said, re.MULTILINE)
    assert "differs_from_base" in said, "what was verified is told check by check"


def test_the_sdk_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = block("## From a program\n")
    with in_process(Settings(home=tmp_path / "home")) as address:
        imported = subprocess.run(
            [sys.executable, "-m", "services.cli", "catalogue", "import",
             str(SAMPLES / "atlas-sources-2026-09-29.jsonl"), "--address", address],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert imported.returncode == 0, imported.stderr
        names: dict[str, object] = {}
        exec(example.replace("127.0.0.1:7410", address), names)
        assert "MarinSkyRL:svamp" in str(names["source"])


def test_the_recorders_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    example = block("which every answer names.\n")
    with in_process(Settings(home=tmp_path / "home")) as address:
        exec(example.replace("127.0.0.1:7410", address), {})
        shown = subprocess.run(
            [sys.executable, "-m", "services.cli", "run", "show", "arm-0", "--address", address],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"^ended +completed at step 10", shown.stdout, re.MULTILINE)
    assert re.search(r"^record +complete", shown.stdout, re.MULTILINE)


def test_every_reason_is_in_the_table_of_errors() -> None:
    for reason, door in REASONS.items():
        assert f"| `{reason}` | {door.grpc} | {door.http} | {door.exit} | {door.meaning} |" in README


def test_every_exit_code_is_in_the_table_of_exit_codes() -> None:
    rows = set(re.findall(r"^\| (\d+) \| ", README, re.MULTILINE))
    assert rows == {"0"} | {str(door.exit) for door in REASONS.values()}


def test_the_measured_rates_are_there() -> None:
    assert re.search(r"## Rates\n.*\n\| 32 clients, 100 a message \|", README, re.DOTALL)


def test_ci_reads_the_test_command_from_the_readme() -> None:
    command = block("<!-- test-command -->").strip()
    assert "\n" not in command
    assert command.endswith(".venv/bin/pytest -n auto")
    assert "<!-- test-command -->" in (ROOT / ".ci" / "run").read_text("utf-8")
