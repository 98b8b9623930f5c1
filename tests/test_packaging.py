"""What is installed: each import is declared, the wheel is whole, and the SDK and the command need no server's packages."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from services.server.app import in_process
from services.server.settings import Settings

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
OURS = {"ledger", "services", "migrations", "protos", "tests"}
WRITTEN_WITHOUT_IMPORT = {"accelerate", "atlas-ledger", "gguf", "pyopenssl", "s3fs"}
"""Itself, and what other packages import for us."""
OWN_LOCK = {"torch"}
"""Named in the README's test command: its builds of one version differ from index to index."""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", name, maxsplit=1)[0]).lower()


BASE = {normal(line) for line in PROJECT["dependencies"]}
PARQUET = {normal(line) for line in PROJECT["optional-dependencies"]["parquet"]}
SERVER = ({normal(line) for line in PROJECT["optional-dependencies"]["server"]} | PARQUET) - WRITTEN_WITHOUT_IMPORT
EXTRAS = ("engines", "objects", "plots", "signing", "train")
OWN_ENVIRONMENT = ("tasks", "vllm")
"""Extras that hold much else to their versions, or are large: the tests of these run in environments of their own."""
OTHERS = {normal(line) for extra in EXTRAS for line in PROJECT["optional-dependencies"][extra]} - WRITTEN_WITHOUT_IMPORT
APART = {normal(line) for extra in OWN_ENVIRONMENT for line in PROJECT["optional-dependencies"][extra]}
DEV = {normal(line) for line in PROJECT["optional-dependencies"]["dev"]} - WRITTEN_WITHOUT_IMPORT


def imported_modules(folder: str) -> Iterator[str]:
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
                yield node.module


@cache
def imported(folder: str) -> dict[str, set[str]]:
    """The packages of others that a folder imports, each with the distributions that may bring it."""
    named = {module.partition(".")[0] for module in imported_modules(folder)} - OURS - set(sys.stdlib_module_names)
    brought = packages_distributions()
    return {name: {normal(d) for d in brought.get(name, (name,))} for name in named}


@pytest.mark.parametrize("folder", ["ledger", "services", "migrations"])
def test_every_package_that_is_imported_is_declared(folder: str) -> None:
    undeclared = {name for name, brought in imported(folder).items() if not brought & (BASE | SERVER | OTHERS | APART)}
    assert undeclared == set()


def test_every_package_that_is_declared_is_imported() -> None:
    brought = set().union(*(b for folder in ("ledger", "services", "migrations") for b in imported(folder).values()))
    assert (BASE | SERVER | OTHERS | APART) - brought == set()


def test_every_package_that_is_declared_is_in_the_lock() -> None:
    locked = set(re.findall(r"^([a-z0-9-]+)==", LOCK, re.MULTILINE))
    assert (BASE | SERVER | OTHERS | DEV) - OWN_LOCK - locked == set()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    subprocess.run([sys.executable, *build], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_its_packages(wheel: Path) -> None:
    listed = ["git", "ls-files", "ledger", "services", "protos", "migrations"]
    tracked = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    assert set(tracked) - held == set()
    for kind in ("ledger/py.typed", "services/py.typed", "protos/ledger/v1/log.proto", "migrations/env.py"):
        assert kind in held
    assert any(name.startswith("ledger/events/examples/") for name in held)
    assert any(name.startswith("services/cli/demo_data/") for name in held)
    assert not [name for name in held if name.startswith("tests/") or "__pycache__" in name]


@pytest.fixture(scope="module")
def clients_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the base dependencies alone, in the versions of the lock."""
    home = tmp_path_factory.mktemp("client") / "venv"
    versions = home.parent / "constraints.txt"
    versions.write_text("\n".join(re.findall(r"^[a-z0-9-]+==[^\\\n]+", LOCK, re.MULTILINE)))
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    python = home / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "-c", versions, wheel], check=True)
    return python


@pytest.mark.slow
def test_a_client_has_the_sdk_and_the_command_without_the_servers_packages(
    clients_python: Path, tmp_path: Path
) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LEDGER_", "PYTHON"))} | {"HOME": str(tmp_path)}

    def run(*command: str, code: int = 0) -> str:
        program = clients_python.parent / command[0]
        done = subprocess.run(
            [program, *command[1:]], cwd=tmp_path, env=kept, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout or done.stderr

    there = "import importlib.util as i; print([n for n in ('sqlalchemy', 'psycopg', 'structlog') if i.find_spec(n)])"
    assert run("python", "-c", there).strip() == "[]"
    run("python", "-W", "error", "-c", "import ledger.client, services.cli.main")
    assert "Exit codes" in run("ledger", "--help")
    assert "server extra" in run("atlas-ledger", "--version")
    assert "review.published" in run("ledger", "schema", "list")
    with in_process(Settings(home=tmp_path / "home")) as address:
        assert json.loads(run("ledger", "source", "list", "--address", address, "--json")) == []
    assert "atlas-ledger[server]" in run("ledger", "source", "list", "--home", "mine", code=2)
