"""A trainer of a thousand steps and a hundred metrics, killed at any step, with its server away for part of it.

At the end everything that the trainer was told to be recorded is in the ledger, once, with the value that it computed.
The server is away in two ways: it answers nothing and keeps its connections (stopped), then it is gone (killed). A
step that waited for an answer would never end while it is; so the steps that end meanwhile are counted, not timed.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ledger.client import Reader, connect
from ledger.client.reader import coordinates
from ledger.client.runs import Runs
from ledger.core.errors import LedgerError
from ledger.wire import runs_pb2
from tests.acceptance.doors import ledger
from tests.acceptance.training.processes import Server, Trainer
from tests.acceptance.training.simulated import METRICS, Asked, Waits, metrics
from tests.support.databases import fresh_database

STEPS = 1_000
RUN = "simulated"

AHEAD = 40
"""Steps that a trainer which is to die may make beyond the one that it must make."""

Numbers = dict[str, str]


class Simulation:
    """One run on one server, through any number of deaths of both."""

    def __init__(self, folder: Path, db: str | None, seed: int, steps: int, close_timeout: float) -> None:
        self.server = Server(folder / "home", db)
        self.seed = seed
        self.steps = steps
        self._close_timeout = close_timeout
        self.random = random.Random(seed)
        self._folder = folder
        self._trainer: Trainer | None = None
        self.made: dict[tuple[int, int], int] = {}
        """Every step that ended, of all processes."""
        self.away: set[tuple[int, int]] = set()
        """Those that ended while the server could not answer."""
        self.begun = 0

    @property
    def spool(self) -> Path:
        return self._folder / "spool"

    def start_trainer(self) -> Trainer:
        saves = self._folder / "saves"
        saves.mkdir(exist_ok=True)
        asked = Asked(
            address=self.server.address,
            run=RUN,
            spool=str(self.spool),
            saves=str(saves),
            seed=self.seed,
            steps=self.steps,
            close_timeout=self._close_timeout,
        )
        self._trainer = Trainer(asked, self.made)
        self.begun += 1
        return self._trainer

    def without_a_server(self, trainer: Trainer, first: int, last: int) -> None:
        """Steps up to `first` with a frozen server, and up to `last` with none."""
        before = set(self.made)
        self.server.freeze()
        trainer.go_to(first)
        self.server.kill()
        trainer.go_to(last)
        self.away |= self.made.keys() - before

    def die_without_a_server(self, trainer: Trainer, first: int, deadly: int) -> int:
        """As above, and the trainer is killed at some step from `deadly` on; gives the last one that had ended."""
        self.without_a_server(trainer, first, deadly)
        before = set(self.made)
        trainer.go_to(deadly + AHEAD, until=deadly + 1)
        trainer.kill()
        self.away |= self.made.keys() - before
        return max(step for attempt, step in self.made if attempt == self.begun)

    def stop(self) -> None:
        if self._trainer is not None:
            self._trainer.stop()
        self.server.stop()


@contextmanager
def simulation(
    folder: Path, db: str | None = None, *, seed: int, steps: int = STEPS, close_timeout: float = 30
) -> Iterator[Simulation]:
    made = Simulation(folder, db, seed, steps, close_timeout)
    try:
        made.server.start()
        yield made
    finally:
        made.stop()


@dataclass
class Recorded:
    """What the ledger has of the run."""

    run: runs_pb2.Run
    rows: list[runs_pb2.StepRow]
    events: list[Any]

    @classmethod
    def of(cls, address: str) -> Recorded:
        with connect(address) as connection:
            reader = Reader(connection)
            where = coordinates(min_size=reader.info().size)
            runs = Runs(connection)
            rows = [row for page in runs.steps(RUN, where) for row in page.rows]
            events = [json.loads(event.payload) for event in reader.events(streams=[f"run/{RUN}"])]
            return cls(runs.run(RUN, where).run, rows, events)

    def numbers(self) -> dict[tuple[int, int], Numbers]:
        return {(row.attempt, row.step): exact(row.metrics) for row in self.rows}

    @property
    def torn(self) -> int:
        """Bytes of a step that never ended: it was cut off by the death of its process."""
        return sum(said.get("unreadable_bytes", 0) for said in self.events if "last_seq" in said)


def exact(numbers: Any) -> Numbers:
    """Each number to its last bit."""
    return {key: float(value).hex() for key, value in sorted(numbers.items())}


def check(simulated: Simulation) -> None:
    """Nothing is missing, nothing is there twice, every value is what was computed, and the ledger says so."""
    found = Recorded.of(simulated.server.address)
    told = found.numbers()

    assert len(told) == len(found.rows), "no step is there twice"
    assert simulated.made.keys() <= told.keys(), "every step that had ended is there"
    # A process may die after a step was written and before it could say so: at most one for each that was killed.
    assert len(told.keys() - simulated.made.keys()) < simulated.begun
    for (attempt, step), numbers in told.items():
        assert numbers == exact(metrics(simulated.seed, attempt, step))
        assert len(numbers) == METRICS

    run = found.run
    assert [flag.code for flag in run.flags] == []
    if found.torn:
        assert run.completeness.verdict == "complete_except"
        assert all("could not be read" in exception for exception in run.completeness.exceptions)
    else:
        assert run.completeness.verdict == "complete", list(run.completeness.exceptions)
    summary = run.summary
    assert (summary.status, summary.last_step, summary.attempts) == ("completed", simulated.steps, simulated.begun)
    check_lineage(found, simulated.begun, simulated.steps)


def check_lineage(found: Recorded, attempts: int, steps: int) -> None:
    """Every step from 1 to the last lies on the way to the final weights once; what was made again is marked."""
    kept = sorted(row.step for row in found.rows if not row.abandoned)
    assert kept == list(range(1, steps + 1))
    assert sum(a.abandoned_steps for a in found.run.attempts) == sum(row.abandoned for row in found.rows)
    (final,) = [c for c in found.run.checkpoints if (c.attempt, c.step) == (attempts, steps)]
    assert sum(part.last_step - part.first_step + 1 for part in final.lineage) == steps
    assert final.last_update == steps


def check_that_nothing_waited(simulated: Simulation) -> None:
    """No step made a call that can wait, in its own thread, whether the server was there or away."""
    assert simulated.away
    assert len(simulated.away) < len(simulated.made)
    assert sum(simulated.made.values()) == 0


def send_the_rest(simulated: Simulation, report: dict[str, int]) -> None:
    """What the trainer's recorder could not send before it had to close."""
    assert (report["dropped"], report["refused"]) == (0, 0)
    told = ledger("sync", simulated.spool, "--address", simulated.server.address, "--json")
    assert told.code == 0, told.err
    assert [one["left"] for one in told.json] == [0]
    assert sum(one["sent"] + one["known"] for one in told.json) == report["waiting"]


def ask_nobody() -> None:
    """A call over the wire to where nobody listens."""
    with connect("127.0.0.1:9") as nobody, pytest.raises(LedgerError):
        Reader(nobody).info()


def test_a_call_that_can_wait_is_seen_wherever_it_is_made() -> None:
    """The control: what counts waiting calls does count them."""

    def deep_inside() -> None:
        time.sleep(0)

    assert Waits().during(deep_inside) == 1
    assert Waits().during(lambda: threading.Event().wait(0)) > 0
    assert Waits().during(ask_nobody) > 0
    assert Waits().during(lambda: b"".join([b"a", b"b"])) == 0


def test_a_thousand_steps_survive_the_death_of_the_trainer_and_of_the_server(tmp_path: Path) -> None:
    with simulation(tmp_path, seed=20_260_729) as simulated:
        first = simulated.start_trainer()
        first.go_to(120)
        simulated.server.wait_for(60)
        reached = simulated.die_without_a_server(first, 200, simulated.random.randrange(300, 600))

        second = simulated.start_trainer()
        second.go_to(reached + 100)
        simulated.away |= {key for key in simulated.made if key[0] == 2}
        simulated.server.start()
        simulated.server.wait_for(reached)
        second.go_to(STEPS)
        send_the_rest(simulated, second.finish())

        check(simulated)
        check_that_nothing_waited(simulated)


def test_a_trainer_that_ended_before_its_server_came_back_leaves_all_the_rest_to_a_sync(tmp_path: Path) -> None:
    with simulation(tmp_path, seed=7, steps=200, close_timeout=0.5) as simulated:
        trainer = simulated.start_trainer()
        trainer.go_to(60)
        simulated.server.wait_for(30)
        simulated.without_a_server(trainer, 120, 200)
        report = trainer.finish()
        assert report["waiting"] > len(simulated.away)

        simulated.server.start()
        send_the_rest(simulated, report)

        check(simulated)
        check_that_nothing_waited(simulated)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_five_rounds_of_deaths_lose_nothing_on_either_store(
    store: str, seed: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with database(store, request) as db, simulation(tmp_path, db, seed=seed) as simulated:
        reached = 0
        for _ in range(5):
            reached = one_round(simulated, reached)
        last = simulated.start_trainer()
        last.go_to(STEPS)
        send_the_rest(simulated, last.finish())

        check(simulated)
        check_that_nothing_waited(simulated)


def one_round(simulated: Simulation, reached: int) -> int:
    """A trainer that goes on after a step, and dies without a server; gives the last step that had ended."""
    trainer = simulated.start_trainer()
    trainer.go_to(reached + 20)
    simulated.server.wait_for(reached)
    frozen = reached + simulated.random.randrange(40, 60)
    reached = simulated.die_without_a_server(trainer, frozen, frozen + simulated.random.randrange(20, 60))
    simulated.server.start()
    return reached


@contextmanager
def database(store: str, request: pytest.FixtureRequest) -> Iterator[str | None]:
    """None: the home's own."""
    if store == "sqlite":
        yield None
        return
    with fresh_database(request.getfixturevalue("postgres")) as uri:
        upgraded = ledger("db", "upgrade", "--db", uri)
        assert upgraded.code == 0, upgraded.err
        yield uri
