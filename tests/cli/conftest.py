"""The command as its users run it: in a folder of its own, against a real ledger."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ledger.client import Writer, connect
from services.cli.demo_plan import demo_publications
from services.cli.main import main
from services.server.app import in_process
from services.server.settings import Settings
from tests.cli.trained import Trained
from tests.server.doors import opened


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str
    raw: bytes

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        assert self.out == ""
        return json.loads(self.err)["error"]


Run = Callable[..., Ran]


def run_command(*arguments: object) -> Ran:
    raw = io.BytesIO()
    out, err = io.TextIOWrapper(raw, encoding="utf-8", write_through=True), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(a) for a in arguments])
    return Ran(code, raw.getvalue().decode("utf-8", "replace"), err.getvalue(), raw.getvalue())


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in an empty folder, without anybody's settings."""
    for name in [n for n in os.environ if n.startswith("LEDGER_")] + ["NO_COLOR", "FORCE_COLOR"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return run_command


@pytest.fixture(scope="session")
def demo_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A ledger that holds the demonstration: only to be read from."""
    settings = Settings(home=tmp_path_factory.mktemp("demo"))
    with in_process(settings) as address:
        with connect(address) as connection:
            writer = Writer(connection)
            for publication in demo_publications():
                writer.publish(publication)
        yield address


@pytest.fixture
def demo(run: Run, demo_address: str) -> Run:
    """Runs a command on the demonstration."""
    return lambda *arguments: run(*arguments, "--address", demo_address)


@pytest.fixture(scope="session")
def trained_story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    """A ledger that holds a sweep of two arms: only to be read from."""
    with in_process(Settings(home=tmp_path_factory.mktemp("trained") / "home")) as address, opened(address) as doors:
        yield Trained(address, doors)


@pytest.fixture
def trained(run: Run, trained_story: Trained) -> Run:
    """Runs a command on the sweep."""
    return lambda *arguments: run(*arguments, "--address", trained_story.address)


@pytest.fixture
def own(run: Run, tmp_path: Path) -> Iterator[Run]:
    """Runs a command on a ledger of this test's own, which lists two sources."""
    with in_process(Settings(home=tmp_path / "home")) as address:

        def on_it(*arguments: object) -> Ran:
            return run(*arguments, "--address", address)

        inventory = tmp_path / "two.jsonl"
        rows = [
            {"id": "O:one", "origin": "O", "family": "math", "dataset_revision": "d1", "verifier_revision": "v1"},
            {"id": "O:two", "origin": "O", "name": "\x1b[31mred\x1b[0m \u202etxet \u009b1m [bold]x[/bold] :smile:"},
        ]
        inventory.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert on_it("catalogue", "import", inventory).code == 0
        yield on_it
