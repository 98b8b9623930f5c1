"""What a card is made from: one run's dossier, its steps' places in the log, and the events themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ledger.client.cards.text import Said, derived, said
from ledger.client.reader import Reader
from ledger.client.runs import Coordinates, Runs
from ledger.client.series_keys import keys_of
from ledger.wire import audit_pb2, runs_pb2


@dataclass(frozen=True)
class Series:
    """Where the steps of a run stand in the log."""

    positions: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """By attempt and step."""

    @staticmethod
    def of(rows: Iterable[runs_pb2.StepRow]) -> Series:
        return Series({(row.attempt, row.step): row.pos for row in rows})

    @property
    def ends(self) -> tuple[int, ...]:
        """The first and the last event of the series; nothing without one."""
        found = self.positions.values()
        return (min(found), max(found)) if found else ()

    def at(self, step: int, attempt: int | None = None) -> int | None:
        """The event that logged a step; of several attempts, the last one."""
        found = [pos for (a, s), pos in self.positions.items() if s == step and attempt in (None, a)]
        return max(found, default=None)


@dataclass(frozen=True)
class Record:
    """A run as it was known at one size, with all that its card may cite."""

    dossier: runs_pb2.RunAsOfResponse
    series: Series = field(default_factory=Series)
    reports: tuple[int, ...] = ()
    """Positions of what recorders reported of themselves."""
    export_id: str | None = None
    """The only export that the card is of; None: all of them."""

    @property
    def run(self) -> runs_pb2.Run:
        return self.dossier.run

    @property
    def exports(self) -> list[runs_pb2.Export]:
        return [e for e in self.dossier.exports if self.export_id in (None, e.id)]

    @property
    def scope(self) -> tuple[int, int]:
        """The first and the last event of the run: between them stands whatever is said of it."""
        return self.run.summary.first_pos, self.run.summary.last_pos

    def derived(self, text: str, *cites: int | None) -> Said:
        """What the rules make of these events; where none stands out, of all events of the run."""
        known = [pos for pos in cites if pos is not None]
        return derived(text, *known) if known else said(text, *self.scope, how="scoped")

    @property
    def declared(self) -> int:
        """The event that says what the run is; without one, its first event."""
        return self.run.declared_pos if self.run.HasField("declared_pos") else self.run.summary.first_pos

    @property
    def configs(self) -> tuple[int, ...]:
        return tuple(config.pos for config in self.run.configs)


def record_of(
    runs: Runs, reader: Reader, run_id: str, at: Coordinates = None, *, export_id: str | None = None
) -> Record:
    """Everything that a card needs, all of it at the size at which the dossier stands.

    Raises:
        NotFound: if nothing of the run was recorded by then.
    """
    dossier = runs.run(run_id, at)
    size = dossier.coordinates.size
    pages = runs.steps(run_id, audit_pb2.Coordinates(size=size), keys=[keys_of(dossier.run).reward])
    reports = reader.events(to_size=size, streams=[f"run/{run_id}"], types=["recording.reported"], headers_only=True)
    return Record(
        dossier=dossier,
        series=Series.of(row for page in pages for row in page.rows),
        reports=tuple(event.pos for event in reports),
        export_id=export_id,
    )
