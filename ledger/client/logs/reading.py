"""What training logs are made from, read at one size and never held: steps, engine samples, trials.

Reading twice gives the same twice, since everything is asked at the size at which the dossier stands. What was
disregarded by then counts for nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ledger.client.reader import Reader
from ledger.client.runs import Coordinates, Runs
from ledger.core import strictjson
from ledger.wire import audit_pb2, log_pb2, runs_pb2

Disregarded = Container[tuple[int, str]]
"""Positions with the ids of the events that stand there and count for nothing."""
_FINITE_NOT = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


@dataclass(frozen=True)
class RunReading:
    """One run at one size."""

    runs: Runs
    reader: Reader
    dossier: runs_pb2.RunAsOfResponse
    disregarded: Disregarded

    @property
    def id(self) -> str:
        return self.dossier.run.summary.id

    @property
    def size(self) -> int:
        return self.dossier.coordinates.size

    def steps(self) -> Iterator[runs_pb2.StepRow]:
        """Every step that was logged, in log order, those of abandoned attempts marked."""
        for page in self.runs.steps(self.id, audit_pb2.Coordinates(size=self.size)):
            yield from page.rows

    def log_files(self) -> dict[int, str]:
        """Where steps were read from, by position, for those that a trainer did not send itself."""
        # Few events name one, and a payload of metrics is long: only those that may are read.
        found = ((pos, payload.get("log_file")) for pos, payload in self._payloads("steps.logged", b'"log_file"'))
        return {pos: name for pos, name in found if isinstance(name, str)}

    def samples(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Each look at an engine, with the event that holds it."""
        for _, payload in self._payloads("engine.sampled"):
            for sample in payload.get("samples", ()):
                yield payload, sample

    def trials(self) -> Iterator[dict[str, Any]]:
        """Each trial that was recorded by name."""
        for _, payload in self._payloads("rollouts.summarised"):
            yield from payload.get("trials", ())

    def _payloads(self, type_: str, holding: bytes = b"") -> Iterator[tuple[int, dict[str, Any]]]:
        """What events of the type say of this run whose payload holds these bytes, as far as it was not redacted."""
        for event in self.reader.events(to_size=self.size, streams=[f"run/{self.id}"], types=[type_]):
            if not event.HasField("payload") or holding not in event.payload:
                continue
            if (event.pos, _id(event)) not in self.disregarded:
                payload = strictjson.parse(event.payload)
                # The rules leave out what another run's events say in this run's stream; so do its logs.
                if isinstance(payload, dict) and payload.get("run_id") == self.id:
                    yield event.pos, payload


def read_run(
    runs: Runs, reader: Reader, run_id: str, at: Coordinates = None, *, disregarded: Disregarded
) -> RunReading:
    """The run as it was known there.

    Raises:
        NotFound: if nothing of it was recorded by then.
    """
    return RunReading(runs, reader, runs.run(run_id, at), disregarded)


def metric(value: Any) -> float | None:
    """A recorded metric as a number: one that is not finite has a name."""
    if isinstance(value, str):
        return _FINITE_NOT.get(value)
    return float(value) if isinstance(value, (int, float)) else None


def metrics(recorded: Mapping[str, Any]) -> dict[str, float]:
    """Recorded metrics as numbers."""
    found = ((key, metric(value)) for key, value in recorded.items())
    return {key: value for key, value in found if value is not None}


def _id(event: log_pb2.Event) -> str:
    return str(strictjson.parse(event.header)["id"])
