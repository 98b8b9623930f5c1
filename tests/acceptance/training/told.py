"""The story of one run, from a reviewed source to a defect in it, told by real processes: `tell(folder)`.

A curator lists and reviews the source. A trainer consumes it, learns, and dies twice: in the middle of a step, while
the server is away, and in the middle of a save. Somebody then takes the regularisation out, with a learning rate far
too high, and starts it once more: what had been learnt is lost. The checkpoint that the rule chose is exported. At last a
defect of the source is confirmed.

What each process said is kept as it was said; nothing here judges it.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ledger.client import connect
from services.trainer import models
from services.trainer.settings import read_settings
from services.trainer.tasks.opening import open_task_set
from tests.acceptance.corrected import Corrected
from tests.acceptance.doors import Doors, ledger
from tests.acceptance.training.processes import SECONDS, Server, end, run_python

RUN: Final = "digits-arm"
SOURCE: Final = "builtin:digits"
STEPS: Final = 55
INTERVAL: Final = 5
LEARNT: Final = 45
"""The first save in which the trainer may die: by then it answers most questions."""
LEARNING: Final = {"learning_rate": 6e-3, "use_entropy_loss": True, "entropy_loss_coef": 0.02}
UNREGULARISED: Final = {"learning_rate": 3.0}
"""No entropy term and no KL; no clip can bind, since each batch makes one update."""

_TABLES: Final[dict[str, dict[str, Any]]] = {
    "run": {
        "id": RUN,
        "folder": "run",
        "purpose": "To see a run collapse.",
        "steps": STEPS,
        "checkpoint_interval": INTERVAL,
        "seed": 1,
        "threads": 1,
    },
    "model": {"kind": "tiny-qwen3", "seed": 1, "layers": 1},
    # A batch asks for each digit once: whoever always answers alike gets a tenth of the reward at most.
    "algorithm": {
        "train_batch_size": 10,
        "n_samples_per_prompt": 32,
        "micro_train_batch_size_per_gpu": 320,
        "max_input_length": 16,
        "max_generate_length": 4,
    },
}
_DATA: Final[dict[str, Any]] = {"kind": "digits", "count": 200, "verifier": "last-number", "atlas_id": SOURCE}


@dataclass
class Told:
    """What remains of the story, all of it on disk."""

    folder: Path
    made: dict[str, Any]

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def run(self) -> Path:
        """The trainer's folder."""
        return self.folder / "run"

    @property
    def start(self) -> Path:
        """The model that training began with."""
        return self.folder / "start"

    @property
    def export(self) -> Path:
        return self.folder / "export"

    @property
    def traces(self) -> Path:
        return self.folder / "traces"

    def lines(self, kind: str, attempt: int | None = None) -> list[dict[str, Any]]:
        """What the trainer's processes printed of a kind; each line with its attempt."""
        alike = [line for line in self.made["lines"] if line["kind"] == kind]
        return [line for line in alike if attempt in {None, line["attempt"]}]

    def checkpoint(self, folder: str) -> Path:
        return self.run / "checkpoints" / folder


class Mortal(Server):
    """A server that may be asked to stop, and comes back at its address."""

    def ask_to_stop(self) -> None:
        self._signal(signal.SIGTERM)

    def has_stopped(self) -> int:
        """Waits for its end; gives its exit code."""
        assert self._process is not None
        code = end(self._process)
        self._process = None
        return code


class Learner:
    """One process of `ledger train`, whose lines are kept until it is dead."""

    def __init__(self, attempt: int, *arguments: object) -> None:
        self.lines: list[dict[str, Any]] = []
        self._attempt = attempt
        self._process = run_python("-m", "services.cli", "train", *map(str, arguments), "--json")

    def until(self, arrived: Callable[[dict[str, Any]], bool]) -> None:
        """Reads on to the first line that is asked for."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._take(line)
            if arrived(self.lines[-1]):
                return
        raise AssertionError(f"the trainer ended by itself, with {end(self._process)}")

    def kill(self) -> None:
        """At whatever it is doing; what it said before still counts."""
        self._process.kill()
        self._drain()

    def kill_while_saving(self, checkpoints: Path, first: int) -> str:
        """Stops it when a save of a late enough step is under way, and kills it if that is still so; gives its folder."""
        deadline = time.monotonic() + SECONDS
        while self._process.poll() is None:
            assert time.monotonic() < deadline, "no save came"
            if saving := _saving(checkpoints, first):
                self._process.send_signal(signal.SIGSTOP)
                if _saving(checkpoints, first) == saving:
                    self.kill()
                    return saving
                self._process.send_signal(signal.SIGCONT)
            time.sleep(0.001)
        raise AssertionError("no save was met")

    def finish(self) -> int:
        """Lets it end by itself; gives its exit code."""
        return self._drain()

    def stop(self) -> None:
        """Whatever state it is in."""
        if self._process.poll() is None:
            self._process.kill()
            self._drain()

    def _drain(self) -> int:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._take(line)
        return end(self._process)

    def _take(self, line: str) -> None:
        if line.endswith("\n"):  # its death may cut the last one off
            self.lines.append({**json.loads(line), "attempt": self._attempt})


def settings(folder: Path, **algorithm: Any) -> Path:
    """The file of settings, as it now is."""
    tables = {**_TABLES, "algorithm": {**_TABLES["algorithm"], **algorithm}}
    file = folder / "run.toml"
    file.write_text(
        "\n".join([*(_table(f"[{name}]", said) for name, said in tables.items()), _table("[[data]]", _DATA)])
    )
    return file


def _table(head: str, said: dict[str, Any]) -> str:
    return "\n".join([head, *(f"{key} = {json.dumps(value)}" for key, value in said.items()), ""])


def command(*arguments: object) -> Any:
    """What a command in a process of its own prints as JSON."""
    process = run_python("-m", "services.cli", *map(str, arguments), "--json")
    out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, out
    return json.loads(out)


def tell(folder: Path) -> Told:
    """Everything that happens, in order."""
    told = Told(folder, {"lines": []})
    server = Mortal(told.home)
    server.start()
    try:
        with connect(server.address) as connection:
            source = Corrected(Doors(connection), _row(settings(folder, **LEARNING)), folder)
            _reviewed(told, source)
            _trained(told, server)
            _exported(told, server.address)
            told.made["size_before_the_defect"] = source.doors.size
            told.made["defect"] = source.confirm("d1")
        server.ask_to_stop()
        told.made["server_ended"] = server.has_stopped()
    finally:
        server.stop()
    told.made["fsck"] = _checked(told)
    return told


def _checked(told: Told) -> Any:
    """What a check of the whole log finds, with no server on it."""
    return ledger("log", "fsck", "--home", told.home, "--json").json


def _row(config: Path) -> dict[str, Any]:
    """The source as an inventory lists it, at the revisions that the trainer will have."""
    tasks = open_task_set(read_settings(config).data[0])
    return {
        "id": SOURCE,
        "name": "digits",
        "origin": "builtin",
        "family": "copying",
        "url": "https://example.org/digits",
        "dataset_id": tasks.dataset_id,
        "dataset_revision": tasks.dataset_revision,
        "revision": tasks.dataset_revision,
        "verifier_revision": tasks.verifier_revision,
        "split": "train",
        "is_benchmark": False,
        "atlas_status": "Available",
        "intended_use": "train",
    }


def _reviewed(told: Told, source: Corrected) -> None:
    inventory = told.folder / "inventory.jsonl"
    inventory.write_text(json.dumps(source.row) + "\n")
    source.doors.record("catalogue", "import", inventory)
    source.review()
    receipt = told.folder / "consumption.json"
    pinned = ["--dataset-revision", f"{SOURCE}={source.dataset}", "--verifier-revision", f"{SOURCE}={source.verifier}"]
    where = ["--address", source.doors.connection.address]
    told.made["checked"] = command("check", SOURCE, "--require", "good", *pinned, "--receipt", receipt, *where)


def _trained(told: Told, server: Mortal) -> None:
    config = told.folder / "run.toml"
    asked = [config, "--receipt", told.folder / "consumption.json", "--address", server.address]
    with _learning(told, 1, *asked) as first:
        first.until(lambda line: line["kind"] == "step" and line["step"] == 2 * INTERVAL + 1)
        server.ask_to_stop()
        first.until(lambda line: line["kind"] == "step" and line["step"] == 2 * INTERVAL + 3)
        first.kill()
    assert server.has_stopped() == 0
    told.made["size_while_away"] = _checked(told)["size"]
    with _learning(told, 2, *asked) as second:
        second.until(lambda line: line["kind"] == "step")
        with ThreadPoolExecutor(1) as meanwhile:
            returned = meanwhile.submit(server.start)
            told.made["half"] = second.kill_while_saving(told.run / "checkpoints", LEARNT)
            returned.result()
    settings(told.folder, **UNREGULARISED)
    with _learning(told, 3, *asked) as third:
        told.made["trainer_ended"] = third.finish()
    told.made["synced"] = command("sync", told.run / "spool", "--address", server.address)


@contextmanager
def _learning(told: Told, attempt: int, *arguments: object) -> Iterator[Learner]:
    learner = Learner(attempt, *arguments)
    try:
        yield learner
    finally:
        learner.stop()
        told.made["lines"] += learner.lines


def _exported(told: Told, address: str) -> None:
    loaded = models.load(read_settings(told.folder / "run.toml").model)
    loaded.model.save_pretrained(told.start)
    chosen = told.lines("end")[-1]["selected"]
    where = ["--address", address]
    told.made["exported"] = command(
        "export", "model", told.checkpoint(chosen["folder"]), "--to", told.export, "--base", told.start, *where
    )
    told.made["built"] = command("traces", "build", told.run, "--to", told.traces, *where)


def _saving(checkpoints: Path, first: int) -> str | None:
    """The folder of a save under way, of a step from the first one on."""
    names = [path.name for path in checkpoints.glob(".saving-*")]
    return next((name for name in names if int(name.split("-")[1]) >= first), None)
