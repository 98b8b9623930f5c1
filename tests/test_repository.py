"""The repository as a whole: lint, types, layers, spelling, and the generated code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAMS = Path(sys.executable).parent


def passes(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def test_the_linter_finds_nothing() -> None:
    passes(str(PROGRAMS / "ruff"), "check")


def test_every_file_is_formatted() -> None:
    passes(str(PROGRAMS / "ruff"), "format", "--check")


def test_the_spelling_is_right() -> None:
    passes(str(PROGRAMS / "codespell"))


def test_each_layer_imports_only_what_is_below_it() -> None:
    passes(str(PROGRAMS / "lint-imports"))


def test_the_types_hold() -> None:
    passes(str(PROGRAMS / "mypy"))


@pytest.mark.slow
def test_the_generated_code_is_what_the_protos_give(tmp_path: Path) -> None:
    passes(str(ROOT / ".ci" / "generate-wire"), str(tmp_path))

    committed = {
        p.name: p.read_bytes() for p in (ROOT / "ledger" / "wire").iterdir() if "_pb2" in p.name and p.is_file()
    }
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == committed
