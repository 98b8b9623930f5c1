"""What recorders sent to a ledger in memory, and the same with a real one behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger.client import Reader, Recorder, connect
from ledger.client.reader import coordinates
from ledger.client.runs import Runs
from ledger.client.testing import FakeLedger
from ledger.rules.training_1.keys import SKYRL

REWARD = SKYRL.reward
SOURCES = [{"atlas_id": None, "dataset_id": "org/tasks"}]


def kinds(ledger: FakeLedger) -> list[str]:
    """The types of all that was sent, but for a recorder's account of itself."""
    return [event.type for event in ledger.events if event.type != "recording.reported"]


def said(ledger: FakeLedger, type_: str) -> list[dict[str, Any]]:
    return [event.payload for event in ledger.of_type(type_)]


def rewards(ledger: FakeLedger, key: str = REWARD) -> list[tuple[int, int, float]]:
    """Attempt, step and reward of each step, in order."""
    return [
        (s["attempt"], one["step"], one["metrics"][key]) for s in said(ledger, "steps.logged") for one in s["steps"]
    ]


def declare(recorder: Recorder, **fields: Any) -> None:
    known: Mapping[str, Any] = {"sources": SOURCES, "rl_start": {"name": "org/base"}, "planned_steps": 4}
    recorder.declare_run(**{**known, **fields})


def asked(address: str, run: str = "arm", *, lineage_of_step: int) -> tuple[Any, list[Any]]:
    """The run as the ledger knows it, and the steps behind the weights of one checkpoint."""
    with connect(address) as connection:
        now = coordinates(min_size=Reader(connection).info().size)
        pages = Runs(connection).steps(run, now, lineage_of_step=lineage_of_step)
        rows = [row for page in pages for row in page.rows]
        return Runs(connection).run(run, now).run, rows
